import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { fullJitter, retryAfterMs, waitMs } from '../../../src/client/waiting.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { created, Harness, inTurn, NEW_ORDER, problem, rejection } from './harness.js';

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0);
const DATE = 'Mon, 30 Nov 2026 12:00:00 GMT';

// [Retry-After, Date, milliseconds]
const ROWS: [string | undefined, string | undefined, number | undefined][] = [
  ['1', undefined, 1_000],
  ['120', DATE, 120_000],
  [' 7 ', DATE, 7_000],
  ['0', DATE, undefined],
  [undefined, DATE, undefined],
  ['', DATE, undefined],
  ['-1', DATE, undefined],
  ['+1', DATE, undefined],
  ['1.5', DATE, undefined],
  ['1e3', DATE, undefined],
  ['0x10', DATE, undefined],
  ['soon', DATE, undefined],
  ['1, 2', DATE, undefined],
  ['Mon, 30 Nov 2026 12:00:30 GMT', DATE, 30_000],
  ['Monday, 30-Nov-26 12:00:30 GMT', DATE, 30_000],
  ['Mon Nov 30 12:00:30 2026', DATE, 30_000],
  ['Tue Dec  1 12:00:00 2026', DATE, 86_400_000],
  // The server is a day behind: what counts is the distance, not what time it is here.
  ['Sun, 29 Nov 2026 12:00:05 GMT', 'Sun, 29 Nov 2026 12:00:00 GMT', 5_000],
  ['Mon, 30 Nov 2026 12:00:30 GMT', undefined, 30_000],
  ['Mon, 30 Nov 2026 12:00:30 GMT', 'yesterday', 30_000],
  ['Mon, 30 Nov 2026 12:00:00 GMT', DATE, undefined],
  ['Mon, 30 Nov 2026 11:59:00 GMT', DATE, undefined],
  ['Monday, 30-Nov-99 12:00:30 GMT', DATE, undefined], // 1999
  ['Mon, 31 Feb 2027 12:00:00 GMT', DATE, undefined],
  ['Mon, 30 Foo 2026 12:00:30 GMT', DATE, undefined],
  ['Mon, 30 ovD 2026 12:00:30 GMT', DATE, undefined],
  ['Mon, 30 Nov 2026 24:00:30 GMT', DATE, undefined],
  ['Mon, 30 Nov 2026 12:00:30 CET', DATE, undefined],
  ['2026-11-30T12:00:30Z', DATE, undefined],
];

describe('Retry-After', () => {
  it.each(ROWS)('%j in an answer of %j means %j', (retryAfter, date, expected) => {
    const headers = new Headers();
    if (retryAfter !== undefined) headers.set('Retry-After', retryAfter);
    if (date !== undefined) headers.set('Date', date);
    expect(retryAfterMs(headers, NOW)).toBe(expected);
  });
});

const durations = fc.nat({ max: 1_000_000 });
const randoms = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const backoffs = fc.record({ backoffBaseMs: durations, backoffCapMs: durations, retryAfterCapMs: durations });

describe('the wait', () => {
  it('lies between nothing and a bound that doubles up to the cap', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5_000 }), backoffs, randoms, (attempt, backoff, random) => {
        const wait = fullJitter(attempt, backoff, () => random);
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBeLessThanOrEqual(backoff.backoffCapMs);
        expect(wait).toBeLessThanOrEqual(backoff.backoffBaseMs * 2 ** Math.min(attempt - 1, 1_000));
      }),
    );
  });

  it('is spread over the whole of it', () => {
    const backoff = { backoffBaseMs: 100, backoffCapMs: 10_000, retryAfterCapMs: 0 };
    const waits = [0, 0.25, 0.5, 0.999].map((random) => fullJitter(4, backoff, () => random));
    expect(waits).toEqual([0, 200, 400, 799.2]);
  });

  it('is never less than what the server asked for, up to its cap', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.option(durations, { nil: undefined }),
        backoffs,
        randoms,
        (attempt, asked, backoff, random) => {
          const wait = waitMs(attempt, asked, backoff, () => random);
          expect(wait).toBeGreaterThanOrEqual(Math.min(asked ?? 0, backoff.retryAfterCapMs));
          expect(wait).toBeLessThanOrEqual(backoff.retryAfterCapMs + backoff.backoffCapMs);
        },
      ),
    );
  });
});

describe('a call', () => {
  let server: ScriptedServer;
  beforeAll(async () => void (server = await ScriptedServer.start()));
  afterAll(() => server.stop());
  beforeEach(() => void (server.requests.length = 0)); // not its connections: one that is closed under a request is a failure

  it('waits longer each time, and tells what it does', async () => {
    inTurn(
      server,
      problem(500, 'internal-error'),
      problem(500, 'internal-error'),
      problem(500, 'internal-error'),
      created,
    );
    const harness = new Harness(server, { backoffBaseMs: 100 });
    await harness.client.createOrder(NEW_ORDER);
    expect(harness.waits).toEqual([50, 100, 200]);
    expect(harness.told).toEqual([
      ...[1, 2, 3].flatMap((attempt) => [`attempt ${attempt}`, 'retry: 500 internal-error']),
      'attempt 4',
      'success',
    ]);
  });

  it('waits as long as it is asked to, and not longer than the cap', async () => {
    const asks = (value: string) => problem(503, 'service-unavailable', { 'Retry-After': value });
    inTurn(server, asks('3'), asks('3600'), created);
    const harness = new Harness(server, { backoffBaseMs: 100, retryAfterCapMs: 10_000 });
    await harness.client.createOrder(NEW_ORDER);
    expect(harness.waits).toEqual([3_050, 10_100]);
  });

  it('ends at the number of attempts', async () => {
    inTurn(server, problem(503, 'service-unavailable'));
    const harness = new Harness(server, { maxAttempts: 5 });
    expect(await rejection(harness.client.createOrder(NEW_ORDER))).toMatchObject({ kind: 'exhausted', attempts: 5 });
    expect(harness.told.at(-1)).toBe('gave up: exhausted');
  });

  it('ends before a wait that would pass the deadline, whatever the wall clock does', async () => {
    inTurn(server, problem(503, 'service-unavailable', { 'Retry-After': '40' }));
    const harness = new Harness(server, {
      deadlineMs: 100_000,
      sleep: async (ms) => {
        harness.clock.elapsed += ms;
        harness.clock.wall -= 3_600_000;
      },
    });
    expect(await rejection(harness.client.createOrder(NEW_ORDER))).toMatchObject({ kind: 'exhausted', attempts: 3 });
  });

  it('gives the last attempt no more time than is left', async () => {
    inTurn(server, () => undefined);
    const harness = new Harness(server, { deadlineMs: 300, attemptTimeoutMs: 60_000 });
    const started = performance.now();
    harness.clock.monotonic = () => performance.now() - started;
    const error = await rejection(harness.client.createOrder(NEW_ORDER));
    expect(error).toMatchObject({ kind: 'unknown', attempts: 1 });
    expect(performance.now() - started).toBeLessThan(5_000);
  });

  it('is not disturbed by hooks that throw', async () => {
    inTurn(server, problem(503, 'service-unavailable'), created);
    const hooks = { onAttempt: () => fail(), onRetry: () => fail(), onSuccess: () => fail() };
    await new Harness(server, { hooks }).client.createOrder(NEW_ORDER);
    expect(server.requests).toHaveLength(2);
  });
});

function fail(): never {
  throw new Error('the log is full');
}
