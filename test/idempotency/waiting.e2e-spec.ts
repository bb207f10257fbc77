import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ConflictException, UnprocessableEntityException } from '@nestjs/common';
import type { ApiResponse } from '../support/api-client.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { expectReplayOf } from './expect-replay-of.js';

const ONCE = { orders: 1, events: 1, keys: 1 };

let database: TestDatabase;
let service: TestApp;
let routes: TestRoutes;
let gate: Gate;

/** A service with that IDEMPOTENCY_WAIT; its handler stands at the gate after it has made an order. */
async function start(wait: string): Promise<void> {
  ({ service, routes } = await startWithTestRoutes({ IDEMPOTENCY_WAIT: wait }, { database }));
  gate = new Gate();
  routes.work = async ({ tenantId }) => {
    const order = await routes.createOrder(tenantId);
    await gate.pass();
    return order;
  };
}

beforeAll(async () => (database = await TestDatabase.create()));
afterAll(() => database.drop());
beforeEach(() => database.clear());
afterEach(() => service.app.close());

const send = (body: unknown = {}, key = 'k-1'): Promise<ApiResponse> => service.as().post('/v1/test/work', body, key);

/** Resolves when that many requests lead or wait for whoever leads. */
const arrivals = (count: number): Promise<boolean> =>
  waitFor(() => routes.arrivals === count, { description: `${count} requests at the key` });

describe('M9: a duplicate in flight', () => {
  it('waits for the outcome of the first, and gets it as a replay', async () => {
    await start('20s');
    const first = send();
    await gate.reached;
    const answered: number[] = [];
    const duplicates = [1, 2, 3].map((n) => send().finally(() => answered.push(n)));
    await arrivals(4);
    expect(answered).toEqual([]);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 }); // nothing is visible yet (M8)

    gate.open();
    for (const duplicate of duplicates) expectReplayOf(await first, await duplicate);
    expect((await first).headers['idempotent-replayed']).toBeUndefined();
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual(ONCE);
  });

  it('gets 409 with Retry-After after IDEMPOTENCY_WAIT, while the first goes on', async () => {
    await start('100ms');
    const first = send();
    await gate.reached;
    const sent = performance.now();
    const refused = await send();
    const waited = performance.now() - sent;
    expect([refused.status, refused.body.code]).toEqual([409, 'idempotency-key-in-use']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(refused.headers['idempotent-replayed']).toBeUndefined();
    expect(waited).toBeGreaterThanOrEqual(95);
    expect(waited).toBeLessThan(2_000);

    gate.open();
    expect((await first).status).toBe(201);
    expectReplayOf(await first, await send());
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual(ONCE);
  });

  it('gets 409 at once where IDEMPOTENCY_WAIT is 0ms, and a replay all the same once there is an answer', async () => {
    await start('0ms');
    const first = send();
    await gate.reached;
    const refused = await send();
    expect([refused.status, refused.body.code]).toEqual([409, 'idempotency-key-in-use']);

    gate.open();
    expectReplayOf(await first, await send());
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual(ONCE);
  });

  it('waits its own time: one that came later is still waiting when an earlier one has given up', async () => {
    await start('1s');
    const first = send();
    await gate.reached;
    const sent = performance.now();
    const early = send();
    await waitFor(() => performance.now() - sent > 500, { description: 'half of its time to pass' });
    const late = send();
    expect((await early).status).toBe(409);
    gate.open();
    expectReplayOf(await first, await late);
    expect(await database.counts()).toEqual(ONCE);
  });

  it('of a first that fails: one of those that wait does the work, and the others get its answer', async () => {
    await start('20s');
    const hold = routes.work;
    routes.work = async (call) => {
      const order = await hold(call);
      if (call.number === 1) throw new Error('broken');
      return order;
    };
    const first = send();
    await gate.reached;
    const duplicates = Array.from({ length: 5 }, () => send());
    await arrivals(6);
    gate.open();

    expect((await first).status).toBe(500);
    const answers = await Promise.all(duplicates);
    const [executed, ...none] = answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined);
    expect([executed!.status, none]).toEqual([201, []]);
    for (const answer of answers.filter((one) => one !== executed)) expectReplayOf(executed!, answer);
    expect(routes.calls).toBe(2);
    expect(await database.counts()).toEqual(ONCE);
  });

  it('of a first that is refused for a reason that may pass: each is told by its own attempt', async () => {
    await start('20s');
    routes.work = async () => {
      await gate.pass();
      throw new ConflictException('not yet');
    };
    const first = send();
    await gate.reached;
    const duplicates = [send(), send()];
    await arrivals(3);
    gate.open();
    for (const answer of await Promise.all([first, ...duplicates])) {
      expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([409, undefined]);
    }
    expect(routes.calls).toBe(3);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('M6, M9: another request under a key that is being executed', () => {
  it('is 422 at once, before the first has ended; the first is not disturbed', async () => {
    await start('20s');
    const first = send({ n: 1 });
    await gate.reached;
    const refused = await send({ n: 2 }); // arrives, or this test hangs
    expect([refused.status, refused.body.code]).toEqual([422, 'idempotency-key-reused']);
    expect(refused.body.detail).toMatch(/\d{4}-\d\d-\d\dT[\d:.]+Z; it is still running/);

    gate.open();
    expect((await first).status).toBe(201);
    expectReplayOf(await first, await send({ n: 1 }));
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual(ONCE);
  });

  it('is never given the answer of the first when both arrive together', async () => {
    await start('20s');
    const pairs = Array.from({ length: 20 }, (_, n) => [send({ n: 1 }, `k-${n}`), send({ n: 2 }, `k-${n}`)]);
    gate.open();
    for (const pair of pairs) {
      const statuses = (await Promise.all(pair)).map(({ status }) => status);
      expect(statuses.sort()).toEqual([201, 422]);
    }
    expect(routes.calls).toBe(20);
    expect(await database.counts()).toEqual({ orders: 20, events: 20, keys: 20 });
  });
});

describe('K27: the first is refused, and what it was refused for disappears at that moment', () => {
  it('one answer for all who wait', async () => {
    await start('20s');
    let taken = true;
    routes.work = async ({ tenantId }) => {
      await routes.createOrder(tenantId);
      await gate.pass();
      if (!taken) return {};
      taken = false; // whoever comes next would succeed
      throw new UnprocessableEntityException('taken');
    };
    const first = send();
    await gate.reached;
    const duplicates = Array.from({ length: 10 }, () => send());
    await arrivals(11);
    gate.open();

    expect((await first).status).toBe(422);
    for (const duplicate of duplicates) expectReplayOf(await first, await duplicate);
    expectReplayOf(await first, await send());
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });
});
