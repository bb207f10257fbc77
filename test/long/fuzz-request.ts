import { METHODS } from 'node:http';
import { newOrder } from '../support/api-client.js';
import { anyBody, type FuzzBody } from './fuzz-bodies.js';
import { authorization, contentType, furtherLines, idempotencyKey, type Line } from './fuzz-headers.js';
import { anyTarget, type Target } from './fuzz-targets.js';
import { type Random } from './random.js';

/** One request as bytes, and what is known of it. */
export interface FuzzRequest {
  readonly method: string;
  readonly target: string;
  readonly bytes: Buffer;
  /** It is HTTP/1.1 as it should be, ends where it says, and leaves the connection open: there must be an answer. */
  readonly sound: boolean;
  /** The caller's name is in order. */
  readonly authorized: boolean;
  /** The key that it means, where no other request means that. */
  readonly uniqueKey?: string;
}

/** Any request; `name` makes its key its own. */
export function anyRequest(random: Random, name: string): FuzzRequest {
  if (random.chance(0.06)) return repeated(random.between(0, 20));
  const { method, target } = anyTarget(random);
  const { lines: callerLines, valid: authorized } = authorization(random);
  const { lines: keyLines, unique: uniqueKey } = idempotencyKey(random, name);
  const wantsBody = ['POST', 'PUT', 'PATCH'].includes(method);
  const body = random.chance(wantsBody ? 0.97 : 0.06) ? anyBody(random) : undefined;
  const framed = body ? frame(random, body) : { lines: [], bytes: Buffer.alloc(0), sound: true };
  // By groups: of several lines of one name the order counts.
  const lines = shuffled(random, [
    callerLines,
    keyLines,
    body ? contentType(random) : [],
    framed.lines,
    furtherLines(random),
  ]).flat();
  const { head, sound } = headOf(random, { method, target }, lines);
  return {
    method,
    target,
    authorized,
    uniqueKey,
    bytes: Buffer.concat([Buffer.from(head, 'latin1'), framed.bytes]),
    sound: sound && framed.sound && isOrdinary(method, target, lines, head),
  };
}

/** One of a few valid requests that are sent again and again: all but one of each are replays. */
function repeated(number: number): FuzzRequest {
  const body = JSON.stringify(newOrder({ metadata: { number: String(number) } }));
  const lines = [
    'POST /v1/orders HTTP/1.1',
    'Host: x',
    'Authorization: Bearer sk_demo_acme',
    `Idempotency-Key: repeated-${number}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ];
  const bytes = Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`);
  return { method: 'POST', target: '/v1/orders', bytes, sound: true, authorized: true };
}

interface Framed {
  readonly lines: Line[];
  readonly bytes: Buffer;
  readonly sound: boolean;
}

/** Says where the body ends: mostly the truth. */
function frame(random: Random, { bytes, encoding }: FuzzBody): Framed {
  const encodingLines: Line[] = encoding === undefined ? [] : [['Content-Encoding', encoding]];
  const length = (value: number | string, sound: boolean): Framed => ({
    lines: [...encodingLines, ['Content-Length', String(value)]],
    bytes,
    sound,
  });
  const chunked = (sent: Buffer, sound: boolean, value = 'chunked'): Framed => ({
    lines: [...encodingLines, ['Transfer-Encoding', value]],
    bytes: sent,
    sound,
  });
  const whole = chunksOf(random, bytes);
  return random.weighted([
    [80, () => length(bytes.length, true)],
    [8, () => chunked(whole, true)],
    [2, () => length(bytes.length + random.between(1, 50), false)],
    [2, () => length(Math.max(0, bytes.length - random.between(1, 50)), false)],
    [1, () => length(random.pick(['-1', '1e2', '0x10', '+5', '', '99999999999999999999', '5, 5', ' 7 ', '٣']), false)],
    [1, () => ({ lines: encodingLines, bytes, sound: false })],
    [1, () => chunked(whole.subarray(0, random.between(0, whole.length)), false)],
    [
      1,
      () =>
        chunked(
          Buffer.concat([Buffer.from(random.pick(['zz\r\n', 'fffffffffffffffff\r\n', '-1\r\n', '\r\n'])), bytes]),
          false,
        ),
    ],
    [
      1,
      () =>
        chunked(
          whole,
          false,
          random.pick(['gzip, chunked', 'chunked, chunked', 'identity', 'xchunked', ' chunked', '']),
        ),
    ],
    [
      1,
      () => ({
        ...chunked(whole, false),
        lines: [
          ['Content-Length', '5'],
          ['Transfer-Encoding', 'chunked'],
        ],
      }),
    ],
    [
      1,
      () => ({
        ...length(bytes.length, false),
        lines: [
          ['Content-Length', '1'],
          ['Content-Length', String(bytes.length)],
        ],
      }),
    ],
  ]);
}

function chunksOf(random: Random, bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    const size = Math.min(bytes.length - at, random.pick([1, 7, 100, 10_000, 200_000]));
    const extension = random.chance(0.1) ? ';a="b"' : '';
    if (parts.length > 150) return Buffer.concat([...parts, chunk(bytes.subarray(at), ''), Buffer.from('0\r\n\r\n')]);
    parts.push(chunk(bytes.subarray(at, at + size), extension));
    at += size;
  }
  return Buffer.concat([...parts, Buffer.from(random.chance(0.2) ? '0\r\nX-Trailer: t\r\n\r\n' : '0\r\n\r\n')]);
}

const chunk = (bytes: Buffer, extension: string): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}${extension}\r\n`), bytes, Buffer.from('\r\n')]);

/** Request line and headers, in one of fourteen cases damaged. */
function headOf(random: Random, { method, target }: Target, lines: Line[]): { head: string; sound: boolean } {
  const head = `${method} ${target} HTTP/1.1\r\nHost: x\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
  if (!random.chance(0.07)) return { head, sound: true };
  const at = random.between(0, head.length - 1);
  const inserted = random.pick(['\0', '\x01', '\n', '\r', '\r\n', ' ', ':', '\x7f', '\xff', '\r\n\r\n']);
  const damaged = random.weighted([
    [3, () => head.slice(0, at) + inserted + head.slice(at)],
    [
      2,
      () =>
        head.replace(
          'Host: x\r\n',
          random.pick([
            '',
            'Host: x\r\nHost: y\r\n',
            'Host:\r\n',
            'Host: a b/@\r\n',
            'Host x\r\n',
            'Host : x\r\n',
            ' Host: x\r\n',
          ]),
        ),
    ],
    [
      2,
      () =>
        head.replace(
          'HTTP/1.1',
          random.pick([
            'HTTP/1.0',
            'HTTP/0.9',
            'HTTP/2.0',
            'HTTP/9.9',
            'HTTP/1.10',
            'http/1.1',
            'HTTP',
            '',
            'RTSP/1.0',
          ]),
        ),
    ],
    [1, () => head.replaceAll('\r\n', '\n')],
    [
      1,
      () =>
        head.replace(
          '\r\n\r\n',
          random.pick(['\r\n', '\r\n x: folded\r\n\r\n', '\r\n: no name\r\n\r\n', '\r\nno colon\r\n\r\n']),
        ),
    ],
    [1, () => random.pick(['\r\n', '\r\n\r\n', '\0', ' ', '\x16\x03\x01\x02\x00']) + head],
  ]);
  return { head: damaged, sound: false };
}

/** Careful rather than complete: what is not plainly ordinary need not be answered, though it may be. */
function isOrdinary(method: string, target: string, lines: readonly Line[], head: string): boolean {
  const curious = lines.some(([name]) => /^(connection|upgrade|expect)$/i.test(name));
  return (
    !curious &&
    METHODS.includes(method) &&
    !['CONNECT', 'SOURCE', 'PRI', 'QUERY'].includes(method) &&
    /^\/[\x21-\x7e]*$/.test(target) &&
    head.length < 15_000 &&
    lines.length < 1_000 &&
    lines.every(([, value]) => /^[\t\x20-\x7e\x80-\xff]*$/.test(value))
  );
}

function shuffled<T>(random: Random, values: T[]): T[] {
  for (let at = values.length - 1; at > 0; at -= 1) {
    const other = random.between(0, at);
    [values[at], values[other]] = [values[other]!, values[at]!];
  }
  return values;
}
