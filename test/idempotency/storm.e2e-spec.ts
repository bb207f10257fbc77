import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type ApiResponse, newOrder } from '../support/api-client.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { expectReplayOf } from './expect-replay-of.js';

const OURS = `datname = current_database() AND application_name = 'orders-service'`;

let database: TestDatabase;
let service: TestApp;
let routes: TestRoutes;
let gate: Gate;

async function start(environment: Record<string, string>): Promise<void> {
  ({ service, routes } = await startWithTestRoutes({ DATABASE_POOL_SIZE: '5', ...environment }, { database }));
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
afterEach(async () => {
  const left = async (): Promise<number> => database.count('pg_stat_activity', `${OURS} AND state LIKE 'idle in%'`);
  await waitFor(async () => (await left()) === 0, { description: 'no session to be left inside a transaction' });
  await service.app.close();
});

const send = (key: string): Promise<ApiResponse> => service.as().post('/v1/test/work', {}, key);
const isReplay = ({ headers }: ApiResponse): boolean => headers['idempotent-replayed'] === 'true';

describe('K4, M38, B5: 50 identical requests at once on a pool of 5', () => {
  it('one executes, the others replay, and unrelated requests are answered meanwhile', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    const storm = Array.from({ length: 50 }, () => send('k-1'));
    await waitFor(() => routes.arrivals === 50, { description: 'all 50 to be in flight' });
    let ended = 0;
    for (const one of storm) void one.then(() => (ended += 1));

    const unrelated = await service.as().post('/v1/orders', newOrder(), 'k-2');
    expect(unrelated.status).toBe(201);
    expectReplayOf(unrelated, await service.as().post('/v1/orders', newOrder(), 'k-2'));
    expect((await service.as().get(unrelated.headers.location!)).status).toBe(200);
    expect(ended).toBe(0);
    // The 49 wait without a connection: only the first one's is inside a transaction.
    expect(await database.count('pg_stat_activity', `${OURS} AND state <> 'idle'`)).toBe(1);

    gate.open();
    const answers = await Promise.all(storm);
    const [first, ...none] = answers.filter((answer) => !isReplay(answer));
    expect([first!.status, none]).toEqual([201, []]);
    for (const answer of answers.filter(isReplay)) expectReplayOf(first!, answer);
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual({ orders: 2, events: 2, keys: 2 });
  });

  it('those for whom it takes too long get 409 with Retry-After, and replay when they ask again', async () => {
    await start({ IDEMPOTENCY_WAIT: '200ms' });
    const first = send('k-1');
    await gate.reached;
    const refused = await Promise.all(Array.from({ length: 49 }, () => send('k-1')));
    for (const { status, body, headers } of refused) {
      expect([status, body.code, headers['retry-after']]).toEqual([409, 'idempotency-key-in-use', '1']);
    }
    gate.open();
    expect((await first).status).toBe(201);
    for (const answer of await Promise.all(refused.map(() => send('k-1')))) expectReplayOf(await first, answer);
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('POST /v1/orders as clients send it', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => service.as().post('/v1/orders', newOrder({ externalRef: 'web-1' }), 'k-1')),
    );
    const first = answers.find((answer) => !isReplay(answer))!;
    expect(first.status).toBe(201);
    for (const answer of answers.filter((one) => one !== first)) expectReplayOf(first, answer);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});

describe('B5, M38: duplicates of many keys at once on a pool of 5', () => {
  beforeEach(() => start({ IDEMPOTENCY_WAIT: '20s' }));

  it('each key executes once, and each duplicate gets the answer of its own key', async () => {
    gate.open();
    const keys = Array.from({ length: 40 }, (_, n) => `k-${n}`);
    const storm = [...keys, ...keys, ...keys, ...keys, ...keys].map(async (key) => ({ key, answer: await send(key) }));
    const answers = await Promise.all(storm);
    for (const key of keys) {
      const own = answers.filter((one) => one.key === key).map(({ answer }) => answer);
      const first = own.find((answer) => !isReplay(answer))!;
      expect(first.status).toBe(201);
      for (const answer of own.filter((one) => one !== first)) expectReplayOf(first, answer);
    }
    expect(new Set(answers.map(({ answer }) => answer.body.id)).size).toBe(40);
    expect(routes.calls).toBe(40);
    expect(await database.counts()).toEqual({ orders: 40, events: 40, keys: 40 });
  });

  it('duplicates of four slow keys leave the fifth connection to everybody else', async () => {
    const keys = ['k-1', 'k-2', 'k-3', 'k-4'];
    const storm = Array.from({ length: 80 }, (_, n) => send(keys[n % 4]!));
    await waitFor(() => routes.arrivals === 80 && routes.calls === 4, { description: 'all 80 to be in flight' });
    for (let n = 0; n < 10; n++) {
      expect((await service.as().post('/v1/orders', newOrder(), `free-${n}`)).status).toBe(201);
    }
    gate.open();
    const answers = await Promise.all(storm);
    expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(4);
    expect(answers.every(({ status }) => status === 201)).toBe(true);
    expect(routes.calls).toBe(4);
    expect(await database.counts()).toEqual({ orders: 14, events: 14, keys: 14 });
  });

  it('more slow keys than connections: all are executed in the end, nobody gets a 5xx', async () => {
    const storm = Array.from({ length: 60 }, (_, n) => send(`k-${n % 12}`));
    await waitFor(() => routes.arrivals === 60 && routes.calls === 5, { description: 'the pool to be taken' });
    gate.open();
    const answers = await Promise.all(storm);
    expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(12);
    expect(answers.every(({ status }) => status === 201)).toBe(true);
    expect(await database.counts()).toEqual({ orders: 12, events: 12, keys: 12 });
  });
});

describe('K4: 30 identical requests at once on a pool of 1', () => {
  it('one executes, the others replay', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s', DATABASE_POOL_SIZE: '1' });
    const storm = Array.from({ length: 30 }, () => send('k-1'));
    await waitFor(() => routes.arrivals === 30, { description: 'all 30 to be in flight' });
    gate.open();
    const answers = await Promise.all(storm);
    expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(1);
    expect(answers.every(({ status }) => status === 201)).toBe(true);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});
