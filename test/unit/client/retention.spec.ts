import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { MemoryIntentStore, type Intent } from '../../../src/client/index.js';
import { ScriptedServer, sendJson } from '../../support/scripted-server.js';
import { all, created, cut, Harness, inTurn, NEW_ORDER, NOW, ORDER, rejection } from './harness.js';

const HOUR = 3_600_000;
let server: ScriptedServer;
beforeAll(async () => void (server = await ScriptedServer.start()));
afterAll(() => server.stop());
beforeEach(() => void (server.requests.length = 0));

/** The server's answer at a time of its own; a success that does not parse is retried. */
const unreadable = (headers: Record<string, string>) => (response: Parameters<typeof created>[0]) =>
  sendJson(response, 201, '{', headers);

const T0 = NOW;
const httpDate = (ms: number) => new Date(ms).toUTCString();
const rfc3339 = (ms: number) => new Date(ms).toISOString();

async function resumed(different: Partial<Intent>, options: { wall?: number } = {}) {
  const store = new MemoryIntentStore();
  const stored = { key: 'k', operation: 'createOrder', method: 'POST', path: '/v1/orders', headers: {}, body: '{}' };
  await store.put({ ...stored, createdAt: rfc3339(T0), ...different } as Intent);
  const harness = new Harness(server, { clock: { now: () => options.wall ?? T0, monotonic: () => 0 } }, store);
  const [outcome] = await all(harness.client.resume());
  return outcome!.status;
}

describe('an intent that never had a completed answer', () => {
  it.each([
    ['is sent within the retention', 23 * HOUR, 'succeeded'],
    ['is not sent past it', 24 * HOUR, 'expired'],
    ['is not sent in the minute before its end', 24 * HOUR - 30_000, 'expired'],
    ['is sent when the clock was set back a little', -30_000, 'succeeded'],
    ['is not sent when the clock was set back by more: its age is not known', -2 * HOUR, 'expired'],
  ])('%s', async (_, later, status) => {
    inTurn(server, created);
    expect(await resumed({}, { wall: T0 + later })).toBe(status);
    expect(server.requests).toHaveLength(status === 'succeeded' ? 1 : 0);
  });

  it('is not sent on once the retention passes during the call', async () => {
    inTurn(server, cut);
    const harness = new Harness(server, {
      retentionMs: 10_000,
      retentionMarginMs: 1_000,
      backoffBaseMs: 10_000,
      random: () => 0.9,
    });
    const error = await rejection(harness.client.createOrder(NEW_ORDER));
    expect(error).toMatchObject({ name: 'RetentionPassedError', kind: 'retention-passed', attempts: 1 });
    expect(await harness.stored()).toBe(1);
  });

  it('grows no younger when the clock is set back meanwhile', async () => {
    inTurn(server, cut);
    const harness = new Harness(server, {
      retentionMs: 10_000,
      retentionMarginMs: 1_000,
      sleep: async () => {
        harness.clock.elapsed += 9_500;
        harness.clock.wall -= 24 * HOUR;
      },
    });
    expect(await rejection(harness.client.createOrder(NEW_ORDER))).toMatchObject({ kind: 'retention-passed' });
  });

  it('is not older than it is because the server has another time', async () => {
    inTurn(server, unreadable({ Date: httpDate(T0 + 30 * HOUR) }), created);
    const harness = new Harness(server);
    expect(await harness.client.createOrder(NEW_ORDER)).toEqual(ORDER);
  });
});

describe('what an answer said of its expiry', () => {
  it('decides, by the time of the server', async () => {
    // This machine is ten hours ahead; the server keeps the answer for a minute and a half.
    const at = T0 - 10 * HOUR;
    inTurn(server, unreadable({ Date: httpDate(at), 'Idempotency-Expires': rfc3339(at + 90_000) }));
    const harness = new Harness(server, { backoffBaseMs: 40_000, backoffCapMs: 40_000, random: () => 0.5 });

    const error = await rejection(harness.client.createOrder(NEW_ORDER));

    expect(error).toMatchObject({ kind: 'retention-passed', attempts: 2 }); // after 20 s, and not after 40 s: a minute is kept
    const { intents } = await harness.store.list();
    expect(intents).toMatchObject([{ expiresAt: rfc3339(at + 90_000), serverOffsetMs: -10 * HOUR }]);
  });

  it.each([
    ['is sent before', T0 + 2 * HOUR, 0, 'succeeded'],
    ['is not sent after', T0 - 1, 0, 'expired'],
    ['knows the distance of the two clocks', T0 + HOUR, 2 * HOUR, 'expired'],
    ['knows it the other way round', T0 - HOUR, -2 * HOUR, 'succeeded'],
  ])('is kept with the intent, which %s', async (_, expires, serverOffsetMs, status) => {
    inTurn(server, (response) => sendJson(response, 201, ORDER, { Date: httpDate(T0 + serverOffsetMs) }));
    const aged = { createdAt: rfc3339(T0 - 20 * HOUR), expiresAt: rfc3339(expires), serverOffsetMs };
    expect(await resumed(aged)).toBe(status);
  });

  it('is ignored when it is no time', async () => {
    inTurn(server, unreadable({ 'Idempotency-Expires': '1 Jan 2020' }), created);
    expect(await new Harness(server).client.createOrder(NEW_ORDER)).toEqual(ORDER);
  });
});

describe('the time of the server', () => {
  it('is not told by what stands between', async () => {
    inTurn(server, (response) => sendJson(response, 200, {}, { Date: httpDate(T0 + 1_000 * HOUR) }), created);
    const harness = new Harness(server);
    await harness.client.createOrder(NEW_ORDER);
    inTurn(server, cut);
    await rejection(harness.client.createOrder(NEW_ORDER));
    const [{ serverOffsetMs } = {}] = (await harness.store.list()).intents;
    expect(Math.abs(serverOffsetMs!)).toBeLessThan(HOUR);
  });

  it('does not go back because an answer has an old date', async () => {
    const expires = { 'Idempotency-Expires': rfc3339(T0 + 90_000) };
    inTurn(
      server,
      unreadable({ Date: httpDate(T0), ...expires }),
      unreadable({ Date: httpDate(T0 - HOUR), ...expires }),
    );
    const harness = new Harness(server, { backoffBaseMs: 40_000, backoffCapMs: 40_000 });
    const error = await rejection(harness.client.createOrder(NEW_ORDER));
    expect(error).toMatchObject({ kind: 'retention-passed', attempts: 2 });
  });

  it('makes up for a clock of this machine that was changed between two processes', async () => {
    // Stored when the server was known to be 5 h ahead. Since then 23 h 59 min 30 s went by, and this machine was set
    // back by 20 h: its own clock would say that the intent is four hours old.
    const now = T0 + 5 * HOUR + 24 * HOUR - 30_000;
    const store = new MemoryIntentStore();
    const stored = { key: 'k', operation: 'createOrder', method: 'POST', path: '/v1/orders', headers: {}, body: '{}' };
    await store.put({ ...stored, createdAt: rfc3339(T0), serverOffsetMs: 5 * HOUR } as Intent);
    const harness = new Harness(server, { clock: { now: () => T0 + 4 * HOUR, monotonic: () => 0 } }, store);
    server.script = (response) => sendJson(response, 200, { data: [] }, { Date: httpDate(now) });

    expect(await all(harness.client.resume())).toMatchObject([{ status: 'expired' }]);
    expect(server.requests.map(({ method, path }) => `${method} ${path}`)).toEqual(['GET /v1/idempotency-keys/k']);
  });
});
