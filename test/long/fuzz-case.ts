import { anyRequest, type FuzzRequest } from './fuzz-request.js';
import { Random } from './random.js';

/** How a client treats its connection. */
export type Manner =
  | 'single' // one request
  | 'pipelined' // several at once, without waiting
  | 'sequential' // several, each after the answer to the one before
  | 'slow' // a few bytes now and then
  | 'half' // a part of a request, then the connection is ended
  | 'left' // a part of a request, and the connection is left open until the end of the run
  | 'cut' // whole requests, and the connection is torn without reading
  | 'garbage'; // no request at all

/** What is done on one connection. */
export interface FuzzCase {
  readonly index: number;
  readonly manner: Manner;
  readonly requests: readonly FuzzRequest[];
  /** In the order of sending; with `sequential` one for each request. */
  readonly pieces: readonly Buffer[];
  /** Milliseconds between pieces. */
  readonly pause: number;
  /** Torn by RST rather than by FIN. */
  readonly rude: boolean;
  /** Every request is sound and sent whole: each must have its answer. */
  readonly sound: boolean;
}

/** The case of that number: the same for the same seed, whatever ran before it. */
export function caseOf(seed: number, index: number): FuzzCase {
  const random = new Random(seed, index);
  const manner = random.weighted<Manner>([
    [50, () => 'single'],
    [13, () => 'pipelined'],
    [13, () => 'sequential'],
    [5, () => 'slow'],
    [7, () => 'half'],
    [0.6, () => 'left'],
    [7, () => 'cut'],
    [4, () => 'garbage'],
  ]);
  const several = manner === 'pipelined' || manner === 'sequential' || (manner === 'cut' && random.chance(0.5));
  const count = manner === 'garbage' ? 0 : several ? random.between(2, 8) : 1;
  const requests = Array.from({ length: count }, (_, n) => {
    const isLast = n === count - 1;
    return requestOf(random, `k-${index}-${n}`, !isLast && random.chance(0.9));
  });
  return {
    index,
    manner,
    requests,
    pieces: piecesOf(random, manner, requests),
    pause: manner === 'slow' ? random.between(1, 8) : 0,
    rude: random.chance(0.5),
    sound: requests.length > 0 && manner !== 'half' && manner !== 'left' && requests.every(({ sound }) => sound),
  };
}

/** What follows a request that is not sound is lost, as a rule: so most of those that others follow are sound. */
function requestOf(random: Random, name: string, sound: boolean): FuzzRequest {
  let request = anyRequest(random, name);
  while (sound && !request.sound) request = anyRequest(random, name);
  return request;
}

function piecesOf(random: Random, manner: Manner, requests: readonly FuzzRequest[]): Buffer[] {
  if (manner === 'garbage') return [garbage(random)];
  if (manner === 'sequential') return requests.map(({ bytes }) => bytes);
  const bytes = Buffer.concat(requests.map((request) => request.bytes));
  if (manner === 'half' || manner === 'left') return [bytes.subarray(0, random.between(0, bytes.length - 1))];
  if (manner === 'slow') return cutUp(random, bytes, random.between(2, 14));
  return random.chance(0.15) ? cutUp(random, bytes, 3) : [bytes];
}

/** Cuts in anywhere, most of them early, where the head is. */
function cutUp(random: Random, bytes: Buffer, count: number): Buffer[] {
  const within = random.chance(0.5) ? bytes.length : Math.min(bytes.length, 400);
  const cuts = Array.from({ length: count - 1 }, () => random.between(0, within)).sort((a, b) => a - b);
  return [0, ...cuts]
    .map((from, n) => bytes.subarray(from, cuts[n] ?? bytes.length))
    .filter(({ length }) => length > 0);
}

function garbage(random: Random): Buffer {
  return random.weighted([
    [3, () => random.bytes(random.between(1, 600))],
    [1, () => Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    [1, () => Buffer.from('\r\n'.repeat(random.between(1, 2_000)))],
    [1, () => Buffer.from('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'latin1')],
    [1, () => Buffer.from('GET')],
    [1, () => Buffer.from(`GET / HTTP/1.1\r\nHost: x\r\n${'X: y\r\n'.repeat(random.pick([10, 3_000]))}`)],
    [1, () => Buffer.from('x'.repeat(random.pick([1, 90_000])))],
    [1, () => Buffer.alloc(0)],
  ]);
}
