import { ACME, GLOBEX } from '../support/test-app.js';
import { type Random } from './random.js';

/** A header line; the value's characters are its bytes (latin1). */
export type Line = readonly [name: string, value: string];

const latin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1');

interface Caller {
  readonly lines: Line[];
  readonly valid: boolean;
}

interface Key {
  readonly lines: Line[];
  readonly unique?: string;
}

/** Lines that say who is calling, and whether they may be let in: Node takes the first of several. */
export function authorization(random: Random): Caller {
  const good = `Bearer ${ACME.key}`;
  const one = (value: string, valid: boolean): Caller => ({ lines: [['Authorization', value]], valid });
  return random.weighted<Caller>([
    [70, () => one(good, true)],
    [8, () => one(random.pick([`Bearer ${GLOBEX.key}`, `bearer ${ACME.key}`, `BEARER   ${ACME.key}  `]), true)],
    [3, () => ({ lines: [], valid: false })],
    [
      8,
      () =>
        one(
          random.pick([
            '',
            'Bearer',
            'Bearer ',
            ACME.key,
            `Basic ${Buffer.from(ACME.key).toString('base64')}`,
            `Bearer ${ACME.key}x`,
            `Bearer ${ACME.key} x`,
            `Bearer ${ACME.key},Bearer ${GLOBEX.key}`,
            `Bearer "${ACME.key}"`,
            `Bearer ${ACME.key.toUpperCase()}`,
            `Bearer ${'x'.repeat(random.pick([500, 501, 9_000]))}`,
            `Bearer sk_${random.between(0, 1e9)}`,
            latin1('Bearer clé'),
            "Bearer ' OR 1=1 --",
          ]),
          false,
        ),
    ],
    [
      1,
      () => ({
        lines: [
          ['Authorization', 'Bearer no'],
          ['Authorization', good],
        ],
        valid: false,
      }),
    ],
    [
      1,
      () => ({
        lines: [
          ['authorization', good],
          ['AUTHORIZATION', 'Bearer no'],
        ],
        valid: true,
      }),
    ],
  ]);
}

/**
 * Lines of Idempotency-Key; `unique` is the key they mean when nobody else sends it. Keys that are not valid begin with
 * `bad-`, so that one in the database gives itself away.
 */
export function idempotencyKey(random: Random, unique: string): Key {
  const one = (value: string): Line[] => [['Idempotency-Key', value]];
  return random.weighted<Key>([
    [50, () => ({ lines: one(unique), unique })],
    [8, () => ({ lines: one(`"${unique}"`), unique })],
    [3, () => ({ lines: one(` \t${unique}\t `), unique })],
    [3, () => ({ lines: one(`"${unique}\\"\\\\"`), unique: `${unique}"\\` })],
    [3, () => ({ lines: one(unique.padEnd(255, '.')), unique: unique.padEnd(255, '.') })],
    [2, () => ({ lines: one(`${unique} ${"'; %00 --"}`), unique: `${unique} '; %00 --` })],
    [12, () => ({ lines: one(`shared-${random.between(0, 30)}`) })],
    [10, () => ({ lines: [] })],
    [
      9,
      () => ({
        lines: one(
          random.pick([
            '',
            '""',
            '"',
            '"bad-',
            'bad-"',
            '"bad-" ; a=1',
            '"bad-"x',
            '"bad-\\n"',
            'bad-'.padEnd(random.pick([256, 9_000]), 'x'),
            latin1('bad-é'),
            latin1('bad-\u{1f375}'),
            'bad-\tx',
            'bad-\x7f',
            'bad-\x80',
          ]),
        ),
      }),
    ],
    [
      2,
      () => ({
        lines: [
          ['Idempotency-Key', `bad-${unique}`],
          ['idempotency-key', `bad-${unique}`],
        ],
      }),
    ],
  ]);
}

const TAGS = [
  '"1"',
  '"2"',
  '*',
  'W/"1"',
  '"1", "2"',
  ',,"1",,',
  '1',
  '"',
  '',
  '*, "1"',
  '"é"',
  '"99999999999999999999"',
  `"${'x'.repeat(5_000)}"`,
  ', '.repeat(2_000),
  ' '.repeat(6_000) + 'x',
];

function condition(random: Random): Line[] {
  if (!random.chance(0.3)) return [];
  const name = random.pick(['If-Match', 'If-None-Match', 'if-match', 'If-Modified-Since', 'If-Range']);
  return Array.from({ length: random.pick([1, 1, 1, 2]) }, () => [name, random.pick(TAGS)] as const);
}

const CONTENT_TYPES = [
  'application/json; charset=utf-8',
  'APPLICATION/JSON;charset="UTF-8"',
  'application/json; charset=latin1',
  'application/json;',
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'application/problem+json',
  '',
  ';',
  'application/json, text/plain',
  latin1('application/jsön'),
];

/** What the body is said to be: mostly the truth. */
export function contentType(random: Random): Line[] {
  if (random.chance(0.88)) return [['Content-Type', 'application/json']];
  return random.chance(0.2) ? [] : [['Content-Type', random.pick(CONTENT_TYPES)]];
}

const CURIOUS: readonly Line[] = [
  ['Expect', '100-continue'],
  ['Expect', '100-Continue'],
  ['Expect', 'the-worst'],
  ['Upgrade', 'websocket'],
  ['Upgrade', 'h2c'],
  ['Connection', 'close'],
  ['Connection', 'keep-alive, x'],
  ['Connection', 'Idempotency-Key, Authorization'],
  ['X-Request-Id', 'a b\tc'],
  ['X-Request-Id', 'x'.repeat(500)],
  ['X-HTTP-Method-Override', 'DELETE'],
  ['X-Forwarded-Proto', 'gopher'],
  ['X-Forwarded-For', '::1, x'],
  ['Forwarded', 'for="[::1'],
  ['Origin', 'null'],
  ['Origin', 'https://evil.example'],
  ['Access-Control-Request-Method', 'POST'],
  ['Accept', 'text/html;q=0, */*;q=x'],
  ['Accept-Encoding', 'gzip;q=0'],
  ['Range', 'bytes=9-1'],
  ['Cookie', '__proto__=1; a'],
  ['TE', 'trailers'],
  ['Keep-Alive', 'timeout=-1'],
  ['Date', 'yesterday'],
  ['__proto__', 'x'],
  ['constructor', 'x'],
  ['Max-Forwards', '0'],
];

/** Conditions, and now and then something that belongs to another game. */
export function furtherLines(random: Random): Line[] {
  const lines = condition(random);
  while (random.chance(0.15)) {
    const line = random.pick(CURIOUS);
    lines.push(line);
    if (line[0] === 'Upgrade') lines.push(['Connection', 'Upgrade, HTTP2-Settings'], ['HTTP2-Settings', 'AAMAAABk']);
  }
  if (random.chance(0.01)) lines.push(...Array.from({ length: 1_500 }, (_, n) => [`x${n}`, ''] as const));
  if (random.chance(0.01)) lines.push(['X-Long', 'x'.repeat(random.pick([8_000, 17_000, 70_000]))]);
  return lines;
}
