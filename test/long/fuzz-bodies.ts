import { deflateSync, gzipSync } from 'node:zlib';
import { newOrder } from '../support/api-client.js';
import { type Random } from './random.js';

const ODD_NUMBERS =
  '0 -0 -1 1.5 1e2 1e400 -1e400 9007199254740991 9007199254740993 1e-400 0.30000000000000004441 01 +1 .5 1. NaN Infinity 0x10 2147483648'.split(
    ' ',
  );
const ODD_STRINGS = [
  '""',
  '" "',
  '"\\u0000"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\u{1f375} té 茶"',
  '"\u202e\ufeff"',
  '"a\tb"',
  '"\\x"',
  `"${'x'.repeat(300)}"`,
  `"${'\\u00e9'.repeat(256)}"`,
  '"EUR"',
  '"\'; DROP TABLE orders; --"',
  '"%s%n$1"',
];
const ODD_NAMES =
  'constructor toString __proto__ prototype hasOwnProperty items currency quantity metadata id status tenantId a/b a~b'.split(
    ' ',
  );
const OTHERS = ['null', 'true', '[]', '{}', '[[]]', '{"a":{}}', '[null]', '', 'undefined'];

/** Text of JSON, or nearly. */
function oddValue(random: Random): string {
  return random.weighted([
    [3, () => random.pick(ODD_NUMBERS)],
    [3, () => random.pick(ODD_STRINGS)],
    [2, () => random.pick(OTHERS)],
    [1, () => nested(random.pick([2, 31, 32, 33, 1_000, 20_000]), random.pick(['[', '{"a":']))],
    [1, () => '9'.repeat(random.pick([20, 400, 20_000]))],
  ]);
}

function nested(depth: number, open: string): string {
  return open.repeat(depth) + '1' + (open === '[' ? ']' : '}').repeat(depth);
}

/** A valid order, large or small. */
export function validOrder(random: Random): Record<string, unknown> {
  const items = Array.from({ length: random.pick([1, 1, 2, 5, 100]) }, (_, n) => ({
    sku: random.pick(['tea', '茶', `sku-${n}`]),
    ...(random.chance(0.7) && { quantity: random.between(1, 9) }),
    unitAmount: random.between(1, 10_000),
  }));
  return newOrder({
    currency: random.pick(['EUR', 'USD', 'JPY']),
    items,
    ...(random.chance(0.3) && { externalRef: `ref-${random.between(0, 400)}` }),
    ...(random.chance(0.3) && { metadata: { note: random.pick(['', 'x', '\u{1f375}', 'constructor']) } }),
    ...(random.chance(0.2) && { clientContext: { at: random.between(0, 1e9), deep: [[{}]] } }),
  });
}

/** A valid order whose text is then changed in one to three places. */
function mutatedText(random: Random): string {
  let text = JSON.stringify(validOrder(random));
  for (let left = random.between(1, 3); left > 0; left -= 1) text = mutation(random, text);
  return text;
}

function mutation(random: Random, text: string): string {
  const at = random.between(0, text.length);
  const name = JSON.stringify(random.pick(ODD_NAMES));
  return random.weighted([
    [4, () => text.replace(random.pick([/:\d+/, /:"[^"]*"/, /:\[.*\]/]), () => `:${oddValue(random)}`)],
    [3, () => text.replace(/[{]/, () => `{${name}:${oddValue(random)},`)],
    [2, () => text.replace(/"sku":/, () => `"sku":"twice","sku":`)],
    [1, () => text.replace(/,"[^"]*":[^,}\]]*/, '')],
    [1, () => text.slice(0, at)],
    [1, () => text.slice(0, at) + random.pick(['\0', '\ufeff', ',', '}', '//x\n', '\\', '\u2028']) + text.slice(at)],
    [1, () => oddValue(random)],
    [1, () => `${text}${random.pick([' ', '\n\n', text, 'x', '\0'])}`],
  ]);
}

/** Bytes that no longer are, or never were, text. */
function mutatedBytes(random: Random): Buffer {
  const bytes = Buffer.from(JSON.stringify(validOrder(random)));
  return random.weighted<Buffer>([
    [3, () => (bytes.writeUInt8(random.between(0x80, 0xff), random.between(0, bytes.length - 1)), bytes)],
    [1, () => Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes])],
    [1, () => Buffer.from(bytes.toString(), 'utf16le')],
    [1, () => random.bytes(random.between(1, 400))],
    [1, () => Buffer.from(JSON.stringify({ a: 'x'.repeat(random.pick([99_000, 99_992, 99_993, 150_000])) }))],
  ]);
}

/** What is to be sent as a body, and how it says it is encoded. */
export interface FuzzBody {
  readonly bytes: Buffer;
  readonly encoding?: string;
}

/** A body of any kind; every other one is a valid order. */
export function anyBody(random: Random): FuzzBody {
  return random.weighted<FuzzBody>([
    [12, () => ({ bytes: Buffer.from(JSON.stringify(validOrder(random))) })],
    [7, () => ({ bytes: Buffer.from(mutatedText(random)) })],
    [2, () => ({ bytes: mutatedBytes(random) })],
    [1, () => ({ bytes: Buffer.from('{"status":"cancelled"}') })],
    [1, () => ({ bytes: Buffer.from(JSON.stringify({ items: validOrder(random).items })) })],
    [2, () => encoded(random)],
  ]);
}

function encoded(random: Random): FuzzBody {
  const plain = Buffer.from(random.chance(0.6) ? JSON.stringify(validOrder(random)) : mutatedText(random));
  const zipped = gzipSync(plain);
  const encoding = random.pick(['gzip', 'GZIP', 'x-gzip', 'deflate', 'br', 'identity', 'gzip, gzip', 'zstd', '', 'no']);
  const bytes = random.weighted<Buffer>([
    [3, () => zipped],
    [1, () => zipped.subarray(0, random.between(0, zipped.length))],
    [1, () => (zipped.writeUInt8(random.between(0, 255), random.between(0, zipped.length - 1)), zipped)],
    [1, () => deflateSync(plain)],
    [1, () => Buffer.concat([zipped, zipped])],
    [1, () => gzipSync(Buffer.alloc(random.pick([99_000, 5_000_000]), 0x20))], // small on the wire, large behind it
    [1, () => plain],
  ]);
  return { bytes, encoding };
}
