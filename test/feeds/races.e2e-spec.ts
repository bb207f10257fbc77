import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { tally, waitForBlocked } from '../orders/order-effects.js';
import { lastSequence, openEpoch, outcomeOf, records, sendBatch } from './feeding.js';

const POOL = 4;

let database: TestDatabase;
let proxy: PostgresProxy;
/** Two processes as far as the database can tell: each has its own pool and its own memory. */
let service: TestApp;
let replica: TestApp;
beforeAll(async () => {
  database = await TestDatabase.create();
  proxy = await PostgresProxy.start(database.url);
  const settings = { DATABASE_POOL_SIZE: String(POOL), RATE_LIMIT: '0' };
  service = await TestApp.start(settings, { database, databaseUrl: proxy.url });
  replica = await TestApp.start(settings, { database });
});
afterAll(async () => {
  await replica.app.close();
  await service.stop();
  await proxy.stop();
});
beforeEach(async () => {
  await database.clear();
  await openEpoch(service);
});

const effects = async () => {
  const { orders, events } = await database.counts();
  return [orders, events];
};

/** Sends a batch and holds it before its COMMIT, with everything that it has locked. */
async function heldBatch(firstSequence: number, batch: number | readonly unknown[], feed?: string) {
  const commit = proxy.hold(statement.starts('COMMIT'));
  const answer = sendBatch(service, 1, firstSequence, batch, feed).then(outcomeOf);
  await commit.reached;
  return { answer, release: () => commit.release() };
}

describe('two batches of one feed at once', () => {
  it('with the same numbers: one is applied, the other waits and acknowledges', async () => {
    const first = await heldBatch(1, 3);
    const second = sendBatch(replica, 1, 1, 3).then(outcomeOf);
    await waitForBlocked(service);
    first.release();

    expect(await first.answer).toEqual([200, 3, 3, 0]);
    expect(await second).toEqual([200, 3, 0, 3]);
    expect(await effects()).toEqual([3, 3]);
  });

  it('that overlap: the later one applies what the other has not', async () => {
    const first = await heldBatch(1, 3);
    const second = sendBatch(replica, 1, 2, 5).then(outcomeOf);
    await waitForBlocked(service);
    first.release();

    expect(await second).toEqual([200, 5, 2, 2]);
    expect(await effects()).toEqual([5, 5]);
  });

  it('with the same numbers for other records: the later one is refused', async () => {
    const first = await heldBatch(1, 3);
    const second = sendBatch(replica, 1, 1, records(11, 13)).then(outcomeOf);
    await waitForBlocked(service);
    first.release();

    expect(await second).toEqual([422, 'sequence-reused', 1]);
    expect(await effects()).toEqual([3, 3]);
  });

  it('fifty times the same, to two processes: applied once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => sendBatch(n % 2 === 0 ? service : replica, 1, 1, 20)),
    );

    expect(tally(answers)).toEqual({ 200: 50 });
    expect(answers.reduce((sum, { body }) => sum + (body.applied as number), 0)).toBe(20);
    expect(await effects()).toEqual([20, 20]);
  });

  it('do not keep other requests from the database, however many wait', async () => {
    const first = await heldBatch(1, 3);
    const waiting = Array.from({ length: 5 * POOL }, () => sendBatch(service, 1, 1, 3));
    const opening = Array.from({ length: 2 * POOL }, () => openEpoch(service));
    const orders = await service.as().get('/v1/orders');
    expect([orders.status, orders.body.data]).toEqual([200, []]);
    expect(outcomeOf(await sendBatch(service, 1, 1, 3, 'other'))).toEqual([409, 'epoch-fenced', 0]);
    first.release();

    const statuses = Object.keys(tally(await Promise.all(waiting)));
    expect(statuses.filter((status) => status !== '200' && status !== '409')).toEqual([]);
    expect(Math.max(...(await Promise.all(opening)))).toBe(1 + 2 * POOL);
    expect(await effects()).toEqual([3, 3]);
  });

  it('come one after another when one before them fails', async () => {
    const commit = proxy.hold(statement.starts('COMMIT'));
    const failing = sendBatch(service, 1, 1, 3).then(outcomeOf);
    await commit.reached;
    const next = sendBatch(service, 1, 1, 3).then(outcomeOf);
    commit.release('cut');

    expect((await failing)[0]).toBe(503);
    expect(await next).toEqual([200, 3, 3, 0]);
    expect(await effects()).toEqual([3, 3]);
  });
});

describe('the same external reference from elsewhere at the same time', () => {
  it('by POST /v1/orders: that one waits for the batch, and is told of its order', async () => {
    const batch = await heldBatch(1, 3);
    const post = replica.as().post('/v1/orders', newOrder({ externalRef: 'ref-2' }));
    await waitForBlocked(service);
    batch.release();

    const { status, body } = await post;
    const [order] = await database.query<{ id: string }>(`SELECT id FROM orders WHERE external_ref = 'ref-2'`);
    expect([status, body.code, body.orderId]).toEqual([409, 'duplicate-external-ref', order!.id]);
    expect(await effects()).toEqual([3, 3]);
  });

  it('by POST /v1/orders, which is first: the batch waits for it and counts a duplicate', async () => {
    const commit = proxy.hold(statement.starts('COMMIT'));
    const post = service.as().post('/v1/orders', newOrder({ externalRef: 'ref-2', currency: 'CHF' }));
    await commit.reached;
    const batch = sendBatch(replica, 1, 1, 3).then(outcomeOf);
    await waitForBlocked(service);
    commit.release();

    expect((await post).status).toBe(201);
    expect(await batch).toEqual([200, 3, 2, 1]);
    expect(await effects()).toEqual([3, 3]);
    expect(await database.count('orders', `currency = 'CHF'`)).toBe(1);
  });

  it('by POST /v1/orders, which comes to nothing: the batch makes the order', async () => {
    const commit = proxy.hold(statement.starts('COMMIT'));
    const post = service.as().post('/v1/orders', newOrder({ externalRef: 'ref-2', currency: 'CHF' }));
    await commit.reached;
    const batch = sendBatch(replica, 1, 1, 3).then(outcomeOf);
    await waitForBlocked(service);
    commit.release('cut');

    expect((await post).status).toBe(503);
    expect(await batch).toEqual([200, 3, 3, 0]);
    expect(await database.count('orders', `currency = 'CHF'`)).toBe(0);
  });

  it('by two feeds that send them in opposite orders: no deadlock, each order once', async () => {
    const feeds = ['north', 'south'];
    for (const feed of feeds) await openEpoch(service, feed);
    const before = await deadlocks();
    for (let round = 0; round < 15; round++) {
      const first = 1 + round * 100;
      const batch = records(first, first + 99);
      const answers = await Promise.all([
        sendBatch(service, 1, first, batch, 'north'),
        sendBatch(replica, 1, first, batch.toReversed(), 'south'),
      ]);
      expect(tally(answers)).toEqual({ 200: 2 });
      expect(answers.reduce((sum, { body }) => sum + (body.applied as number), 0)).toBe(100);
    }
    expect(await effects()).toEqual([1_500, 1_500]);
    expect(await Promise.all(feeds.map((feed) => lastSequence(service, feed)))).toEqual([1_500, 1_500]);
    expect(await deadlocks()).toBe(before);
  });
});

/** The server's own count; a session tells of its at the latest when it is idle. */
async function deadlocks(): Promise<number> {
  const [row] = await database.query<{ n: number }>(
    `SELECT deadlocks::int AS n FROM pg_stat_database WHERE datname = current_database()`,
  );
  return row!.n;
}

describe('what a batch costs the database', () => {
  /** How many statements and waits a batch of new records takes. */
  async function cost(firstSequence: number, count: number): Promise<{ statements: string[]; waits: number }> {
    const recording = proxy.record();
    const { status } = await sendBatch(service, 1, firstSequence, firstSequence + count - 1);
    // Whose API key it is was looked up before, but possibly too long ago.
    const turns = recording.stop().turns.filter((turn) => !turn.statements.some((sql) => sql.includes('api_keys')));
    expect(status).toBe(200);
    const statements = turns.flatMap((turn) =>
      turn.statements.map((sql) => sql.trim().split(/\s+/).slice(0, 3).join(' ')),
    );
    return { statements, waits: turns.length };
  }

  it('is a handful of statements in three waits, however many records it has', async () => {
    for (const sequence of [1, 2, 3, 4, 5]) await sendBatch(service, 1, sequence, sequence);
    const one = await cost(6, 1);
    const all = await cost(7, 500);

    expect(one.statements).toEqual([
      'BEGIN',
      'SELECT feed, epoch::float8',
      'SELECT first_sequence::float8 AS',
      'INSERT INTO orders',
      'INSERT INTO outbox',
      'UPDATE feeds SET',
      'INSERT INTO feed_batches',
      'DELETE FROM feed_batches',
      'COMMIT',
    ]);
    expect([one.waits, all.waits]).toEqual([3, 3]);
    expect(all.statements).toEqual(one.statements);
    expect(await effects()).toEqual([506, 506]);
  });

  it('is one statement more where the repeats are from before the batches that are remembered', async () => {
    for (const first of [1, 101, 102, 103, 104, 105, 106]) await sendBatch(service, 1, first, Math.max(100, first));
    const { statements, waits } = await cost(1, 500);

    expect(statements.filter((sql) => sql.startsWith('SELECT'))).toHaveLength(3);
    expect([statements.length, waits]).toEqual([10, 4]);
    expect(await effects()).toEqual([500, 500]);
  });
});
