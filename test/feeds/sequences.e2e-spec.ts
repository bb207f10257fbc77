import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { OrderView } from '../../src/orders/dto/order-view.js';
import { newOrder } from '../support/api-client.js';
import { GLOBEX, TestApp } from '../support/test-app.js';
import { createOrder } from '../orders/order-effects.js';
import { FEED, lastSequence, openEpoch, outcomeOf, records, sendBatch } from './feeding.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(async () => {
  await service.database.clear();
  await openEpoch(service);
});

const send = async (firstSequence: number, batch: number | readonly unknown[]) =>
  outcomeOf(await sendBatch(service, 1, firstSequence, batch));
const counts = async () => {
  const { orders, events, keys } = await service.database.counts();
  return [orders, events, keys];
};
const keptBatches = () =>
  service.database.query<{ kept: string }>(
    `SELECT first_sequence || '-' || last_sequence AS kept FROM feed_batches ORDER BY first_sequence`,
  );

describe('a batch of numbered records', () => {
  it('makes an order and an event of each record, without any key', async () => {
    const { status, body } = await sendBatch(service, 1, 1, 3);

    expect([status, body]).toEqual([200, { epoch: 1, lastSequence: 3, applied: 3, duplicates: 0 }]);
    expect(await counts()).toEqual([3, 3, 0]);
    const { data } = (await service.as().get('/v1/orders')).body;
    expect((data as OrderView[]).map(({ externalRef }) => externalRef)).toEqual(['ref-1', 'ref-2', 'ref-3']);
    expect(data[0]).toMatchObject({ ...newOrder(), status: 'pending', totalAmount: 900, metadata: {}, version: 1 });
  });

  it('makes the same order of a record as a request does, and the same event', async () => {
    const order = { currency: 'CHF', items: [{ sku: 'tea', unitAmount: 7 }], metadata: { z: '1', long: '2', a: '3' } };
    const asked = await createOrder(service, { ...order, externalRef: 'asked' });
    await send(1, [{ ...order, externalRef: 'fed', clientContext: { attempt: 1 } }]);

    const [fed] = (await service.as().get('/v1/orders?externalRef=fed')).body.data;
    const own = { id: expect.any(String), createdAt: expect.any(String), updatedAt: expect.any(String) };
    expect(fed).toEqual({ ...asked, ...own, externalRef: 'fed' });
    const events = (await service.as().get(`/v1/events?subject=${fed.id}`)).body.data;
    expect(events).toEqual([expect.objectContaining({ type: 'order.created', aggregateversion: '1' })]);
    expect(JSON.stringify(events[0].data)).toBe(JSON.stringify(fed));
  });

  it('takes 500 records and one', async () => {
    expect(await send(1, 500)).toEqual([200, 500, 500, 0]);
    expect(await send(501, 501)).toEqual([200, 501, 1, 0]);
    expect(await counts()).toEqual([501, 501, 0]);
  });

  it('begins at 1', async () => {
    expect(await send(2, 3)).toEqual([409, 'sequence-gap', 1]);
    expect(await counts()).toEqual([0, 0, 0]);
  });

  it('reaches up to 2^53 - 1, and not beyond', async () => {
    const last = Number.MAX_SAFE_INTEGER;
    await service.database.query('UPDATE feeds SET last_sequence = $1', [last - 2]);

    expect((await sendBatch(service, 1, last - 1, records(1, 3))).body.errors).toEqual([
      { pointer: '/firstSequence', detail: expect.any(String) },
    ]);
    expect(await send(last - 1, records(1, 2))).toEqual([200, last, 2, 0]);
    expect(await send(last - 1, records(1, 2))).toEqual([200, last, 0, 2]);
    expect(await counts()).toEqual([2, 2, 0]);
  });

  it('belongs to its tenant and to its feed', async () => {
    await openEpoch(service, 'other');
    await service.as(GLOBEX).send('POST', `/v1/feeds/${FEED}/epochs`);
    await send(1, 3);

    expect([await lastSequence(service), await lastSequence(service, 'other')]).toEqual([3, 0]);
    expect((await service.as(GLOBEX).get(`/v1/feeds/${FEED}`)).body).toEqual({ feed: FEED, epoch: 1, lastSequence: 0 });
    const body = { epoch: 1, firstSequence: 1, records: records(1, 3) };
    const others = await service.as(GLOBEX).send('POST', `/v1/feeds/${FEED}/records`, { body });
    expect(outcomeOf(others)).toEqual([200, 3, 3, 0]);
    expect(await counts()).toEqual([6, 6, 0]);
  });
});

describe('M32: at or below the last number is a duplicate, above the next a gap', () => {
  beforeEach(() => send(1, 4));

  it('acknowledges a batch that arrives again, and changes nothing', async () => {
    const before = await service.database.query('SELECT * FROM feeds JOIN feed_batches USING (feed)');

    expect(await send(1, 4)).toEqual([200, 4, 0, 4]);
    expect(await send(2, 3)).toEqual([200, 4, 0, 2]);
    expect(await counts()).toEqual([4, 4, 0]);
    expect(await service.database.query('SELECT * FROM feeds JOIN feed_batches USING (feed)')).toEqual(before);
  });

  it('applies the new part of a batch that overlaps', async () => {
    expect(await send(3, 6)).toEqual([200, 6, 2, 2]);
    expect(await counts()).toEqual([6, 6, 0]);
  });

  it('remembers of a batch that overlaps what was new', async () => {
    await send(3, 6);
    expect(await keptBatches()).toEqual([{ kept: '1-4' }, { kept: '5-6' }]);
    expect(await send(1, 7)).toEqual([200, 7, 1, 6]);
  });

  it('refuses a gap with the number that is expected, and applies nothing of it', async () => {
    expect(await send(6, 7)).toEqual([409, 'sequence-gap', 5]);
    expect(await counts()).toEqual([4, 4, 0]);
    expect(await lastSequence(service)).toBe(4);
  });

  it.each<[string, number, unknown[]]>([
    ['another amount', 4, records(4, 4, { items: [{ sku: 'tea', unitAmount: 451 }] })],
    ['another currency', 4, records(4, 4, { currency: 'CHF' })],
    ['other metadata', 4, records(4, 4, { metadata: { a: 'b' } })],
    ['another reference', 4, records(4, 4, { externalRef: 'ref-5' })],
    ['the record of another number', 4, records(3, 3)],
    ['the first of a batch changed', 1, [...records(1, 1, { currency: 'CHF' }), ...records(2, 4)]],
    ['new ones behind', 3, [...records(3, 3), ...records(4, 4, { currency: 'CHF' }), ...records(5, 6)]],
  ])('refuses a number that stands for something else, and applies nothing: %s', async (_, first, batch) => {
    const [status, code] = await send(first, batch);

    expect([status, code]).toEqual([422, 'sequence-reused']);
    expect(await counts()).toEqual([4, 4, 0]);
    expect(await lastSequence(service)).toBe(4);
  });

  it('says which number that is', async () => {
    const answer = await sendBatch(service, 1, 2, [...records(2, 3), ...records(4, 4, { currency: 'CHF' })]);
    expect([answer.body.sequence, answer.headers['content-type']]).toEqual([
      4,
      expect.stringContaining('problem+json'),
    ]);
  });

  it('does not tell a sender that has lost its counter that new orders are old', async () => {
    expect(await send(1, records(901, 904))).toEqual([422, 'sequence-reused', 1]);
    expect(await send(1, records(901, 910))).toEqual([422, 'sequence-reused', 1]);
    expect(await counts()).toEqual([4, 4, 0]);
  });

  it('knows a record however it is spelled: defaults, member order, notes about the attempt', async () => {
    const spelled = `{"epoch":1,"firstSequence":4,"records":[{"metadata":{},"clientContext":{"attempt":2},
      "items":[{"unitAmount":4.5e2,"quantity":2,"sku":"t\\u0065a"}],"externalRef":"ref-4","currency":"EUR"}]}`;
    const answer = await service.as().send('POST', `/v1/feeds/${FEED}/records`, { body: spelled });

    expect(outcomeOf(answer)).toEqual([200, 4, 0, 1]);
    await send(5, [{ externalRef: 'ref-5', currency: 'EUR', items: [{ sku: 'tea', unitAmount: 1 }] }]);
    const written = [{ externalRef: 'ref-5', currency: 'EUR', items: [{ sku: 'tea', quantity: 1, unitAmount: 1 }] }];
    expect(await send(5, written)).toEqual([200, 5, 0, 1]);
    expect(await counts()).toEqual([5, 5, 0]);
  });
});

describe('M33: the last five batches are remembered', () => {
  beforeEach(async () => {
    for (const first of [1, 3, 5, 7, 9, 11]) await send(first, first + 1);
  });
  const OTHER = { currency: 'CHF' };

  it('and no more', async () => {
    const kept = ['3-4', '5-6', '7-8', '9-10', '11-12'].map((range) => ({ kept: range }));
    expect(await keptBatches()).toEqual(kept);
  });

  it('within them the record itself must match', async () => {
    expect(await send(3, 12)).toEqual([200, 12, 0, 10]);
    expect(await send(3, records(3, 3, OTHER))).toEqual([422, 'sequence-reused', 3]);
  });

  it('before them its external reference must exist', async () => {
    expect(await send(1, 12)).toEqual([200, 12, 0, 12]);
    expect(await send(1, records(1, 2, OTHER))).toEqual([200, 12, 0, 2]);
    expect(await send(1, records(901, 902))).toEqual([422, 'sequence-reused', 1]);
    expect(await send(1, [...records(1, 1), ...records(901, 901)])).toEqual([422, 'sequence-reused', 2]);
    expect(await counts()).toEqual([12, 12, 0]);
  });

  it('or belong to an order that was deleted', async () => {
    const [order] = (await service.as().get('/v1/orders?externalRef=ref-1')).body.data;
    await service.as().delete(`/v1/orders/${order.id}`);

    expect(await send(1, 2)).toEqual([200, 12, 0, 2]);
    expect(await service.database.count('orders', 'deleted_at IS NULL')).toBe(11);
  });

  it("of another tenant's reference it makes no difference", async () => {
    await service.as(GLOBEX).post('/v1/orders', newOrder({ externalRef: 'ref-901' }));
    expect(await send(1, records(901, 902))).toEqual([422, 'sequence-reused', 1]);
  });

  it('what another version of the algorithm has hashed counts as before them', async () => {
    await service.database.query('UPDATE feed_batches SET hash_version = 0');

    expect(await send(11, records(11, 12, OTHER))).toEqual([200, 12, 0, 2]);
    expect(await send(11, records(901, 902))).toEqual([422, 'sequence-reused', 11]);
  });
});

describe('an external reference that exists as an order', () => {
  it('counts as a duplicate and changes nothing, but has its number from then on', async () => {
    const order = await createOrder(service, { externalRef: 'ref-2', currency: 'CHF' });

    expect(await send(1, 3)).toEqual([200, 3, 2, 1]);
    expect((await service.as().get(`/v1/orders/${order.id}`)).body).toEqual(order);
    expect(await counts()).toEqual([3, 3, 1]);
    expect(await send(2, 2)).toEqual([200, 3, 0, 1]);
    expect(await send(2, records(2, 2, { currency: 'CHF' }))).toEqual([422, 'sequence-reused', 2]);
  });

  it('makes an order again where that one was deleted', async () => {
    const { id } = await createOrder(service, { externalRef: 'ref-1' });
    await service.as().delete(`/v1/orders/${id}`);

    expect(await send(1, 1)).toEqual([200, 1, 1, 0]);
    expect(await service.database.count('orders', 'deleted_at IS NULL')).toBe(1);
  });

  it('leaves a batch of nothing else without an order and without an event', async () => {
    await openEpoch(service, 'other');
    await sendBatch(service, 1, 1, 3, 'other');

    expect(await send(1, 3)).toEqual([200, 3, 0, 3]);
    expect(await counts()).toEqual([3, 3, 0]);
  });
});
