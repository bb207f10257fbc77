import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { tally, waitForBlocked } from '../orders/order-effects.js';
import { FEED, lastSequence, openEpoch, outcomeOf, records, sendBatch } from './feeding.js';

let database: TestDatabase;
let proxy: PostgresProxy;
let service: TestApp;
/** Another process, as far as the database can tell. */
let replica: TestApp;
beforeAll(async () => {
  database = await TestDatabase.create();
  proxy = await PostgresProxy.start(database.url);
  service = await TestApp.start({}, { database, databaseUrl: proxy.url });
  replica = await TestApp.start({}, { database });
});
afterAll(async () => {
  await replica.app.close();
  await service.stop();
  await proxy.stop();
});
beforeEach(() => database.clear());

const send = async (epoch: number, firstSequence: number, batch: number | readonly unknown[]) =>
  outcomeOf(await sendBatch(service, epoch, firstSequence, batch));
const effects = async () => {
  const { orders, events } = await database.counts();
  return [orders, events];
};

describe('an epoch of a feed', () => {
  it('is opened without body and key, one after the other, and its numbers go on', async () => {
    const first = await service.as().send('POST', `/v1/feeds/${FEED}/epochs`);
    await send(1, 1, 3);
    const second = await service.as().send('POST', `/v1/feeds/${FEED}/epochs`);

    expect([first.status, first.body]).toEqual([201, { feed: FEED, epoch: 1, nextSequence: 1 }]);
    expect([second.status, second.body]).toEqual([201, { feed: FEED, epoch: 2, nextSequence: 4 }]);
    expect((await service.as().get(`/v1/feeds/${FEED}`)).body).toEqual({ feed: FEED, epoch: 2, lastSequence: 3 });
    expect(await send(2, 4, 5)).toEqual([200, 5, 2, 0]);
    expect(await effects()).toEqual([5, 5]);
  });

  it('is opened again by a repeat, which fences the one before and harms nothing', async () => {
    const opened = await Promise.all(Array.from({ length: 10 }, () => openEpoch(service)));

    expect(opened.sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(await send(10, 1, 2)).toEqual([200, 2, 2, 0]);
    expect(await database.count('feeds')).toBe(1);
  });

  it('must have been opened', async () => {
    expect(await send(1, 1, 2)).toEqual([409, 'epoch-fenced', 0]);
    expect((await service.as().get(`/v1/feeds/${FEED}`)).status).toBe(404);
    expect(await effects()).toEqual([0, 0]);
    expect(await database.count('feeds')).toBe(0);
  });

  it('is fenced by a later one: for new records, for gaps, and for what was acknowledged before', async () => {
    await openEpoch(service);
    await send(1, 1, 3);
    await openEpoch(service);

    expect(await send(1, 4, 5)).toEqual([409, 'epoch-fenced', 2]);
    expect(await send(1, 9, 9)).toEqual([409, 'epoch-fenced', 2]);
    expect(await send(1, 1, 3)).toEqual([409, 'epoch-fenced', 2]);
    expect(await effects()).toEqual([3, 3]);
  });

  it('is refused when it was never opened here', async () => {
    await openEpoch(service);
    expect(await send(2, 1, 1)).toEqual([409, 'epoch-fenced', 1]);
    expect(await effects()).toEqual([0, 0]);
  });
});

describe('K23: a sender whose reply was lost opens a new epoch and sends again', () => {
  const loseReply = () => proxy.once(statement.isAnswered('COMMIT'), 'cut');

  it('nothing is there twice, and it goes on', async () => {
    await openEpoch(service);
    await send(1, 1, 3);
    const lost = loseReply();
    expect(await send(1, 4, 6)).toEqual([503, 'outcome-unknown', undefined]);
    await lost;

    expect(await openEpoch(service)).toBe(2);
    expect(await send(2, 4, 6)).toEqual([200, 6, 0, 3]);
    expect(await send(2, 7, 8)).toEqual([200, 8, 2, 0]);
    expect(await effects()).toEqual([8, 8]);
  });

  it('also without a new epoch: the same batch again finds out', async () => {
    await openEpoch(service);
    const lost = loseReply();
    const { status, headers } = await sendBatch(service, 1, 1, 3);
    await lost;

    expect([status, headers['retry-after']]).toEqual([503, '1']);
    expect(await send(1, 1, 3)).toEqual([200, 3, 0, 3]);
    expect(await effects()).toEqual([3, 3]);
  });

  it.each([
    ['COMMIT never arrived', () => statement.starts('COMMIT'), 'outcome-unknown'],
    ['the orders were not inserted yet', () => statement.starts(/INSERT INTO orders/), 'service-unavailable'],
    ['the feed was not locked yet', () => statement.starts('BEGIN'), 'service-unavailable'],
  ])('and when %s, the same batch again is applied', async (_, moment, code) => {
    await openEpoch(service);
    const lost = proxy.once(moment(), 'cut');
    expect(await send(1, 1, 3)).toEqual([503, code, undefined]);
    await lost;
    expect(await effects()).toEqual([0, 0]);

    expect(await send(1, 1, 3)).toEqual([200, 3, 3, 0]);
    expect(await effects()).toEqual([3, 3]);
  });

  it('a late batch of the old epoch, a gap and the same numbers with other content are refused', async () => {
    await openEpoch(service);
    await send(1, 1, 3);
    await openEpoch(service);

    expect(await send(1, 4, 6)).toEqual([409, 'epoch-fenced', 2]);
    expect(await send(2, 5, 6)).toEqual([409, 'sequence-gap', 4]);
    expect(await send(2, 3, records(3, 4, { currency: 'CHF' }))).toEqual([422, 'sequence-reused', 3]);
    expect(await effects()).toEqual([3, 3]);
    expect(await lastSequence(service)).toBe(3);
  });
});

describe('a zombie of an old epoch that races with the opening of a new one', () => {
  it('that has the feed first commits first: the new epoch begins behind it', async () => {
    await openEpoch(service);
    const commit = proxy.hold(statement.starts('COMMIT'));
    const zombie = send(1, 1, 3);
    await commit.reached;
    const opening = replica.as().send('POST', `/v1/feeds/${FEED}/epochs`);
    await waitForBlocked(service);
    commit.release();

    expect(await zombie).toEqual([200, 3, 3, 0]);
    expect((await opening).body).toEqual({ feed: FEED, epoch: 2, nextSequence: 4 });
    expect(await effects()).toEqual([3, 3]);
  });

  it('that comes second waits for the opening, and is refused', async () => {
    await openEpoch(service);
    const commit = proxy.hold(statement.starts('COMMIT'));
    const opening = openEpoch(service);
    await commit.reached;
    const zombie = sendBatch(replica, 1, 1, 3).then(outcomeOf);
    await waitForBlocked(service);
    commit.release();

    expect(await opening).toBe(2);
    expect(await zombie).toEqual([409, 'epoch-fenced', 2]);
    expect(await effects()).toEqual([0, 0]);
  });

  it('in any order, many times: once an epoch is open, nothing of an older one is applied', async () => {
    for (let epoch = 1; epoch <= 15; epoch++) {
      expect(await openEpoch(service)).toBe(epoch);
      const first = (await lastSequence(service)) + 1;
      const zombies = [service, replica, service].map((one) => sendBatch(one, epoch, first, first + 1));
      const [opening, ...answers] = await Promise.all([openEpoch(replica), ...zombies]);
      expect(Object.keys(tally(answers)).filter((status) => !['200', '409'].includes(status))).toEqual([]);
      const after = await lastSequence(service);
      expect(await send(epoch, after + 1, after + 1)).toEqual([409, 'epoch-fenced', opening]);
      const applied = answers.reduce((sum, { body }) => sum + ((body.applied as number | undefined) ?? 0), 0);
      expect([epoch, after]).toEqual([epoch, first - 1 + applied]);
      await database.query('UPDATE feeds SET epoch = $1', [epoch]);
      expect(await effects()).toEqual([after, after]);
    }
  });
});
