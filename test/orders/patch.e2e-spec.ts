import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';
import { createOrder, eventsOf, tally } from './order-effects.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const patch = (id: string, body: unknown, headers: Record<string, string> = {}, key?: string) =>
  service.as().send('PATCH', `/v1/orders/${id}`, { body, headers, ...(key === undefined ? {} : { key }) });

describe('PATCH /v1/orders/{id} (M23)', () => {
  it('changes the version that it names, and no more than the members it gives', async () => {
    const order = await createOrder(service, { externalRef: 'web-1', metadata: { a: 'b' } });
    const items = [{ sku: 'coffee', quantity: 3, unitAmount: 300 }];
    const changed = await patch(order.id, { items }, { 'If-Match': '"1"' });

    expect([changed.status, changed.headers.etag]).toEqual([200, '"2"']);
    expect(changed.body).toEqual({ ...order, items, totalAmount: 900, version: 2, updatedAt: expect.any(String) });
    expect(changed.body.updatedAt >= order.updatedAt).toBe(true);
    expect((await service.as().get(`/v1/orders/${order.id}`)).body).toEqual(changed.body);
    expect(await eventsOf(service, order.id)).toEqual(['order.created 1', 'order.updated 2']);
    const [event] = await service.database.query('SELECT payload FROM outbox WHERE aggregateversion = 2');
    expect(event!.payload).toEqual(changed.body);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('replaces items and metadata whole, merging nothing', async () => {
    const { id } = await createOrder(service, {
      items: [
        { sku: 'tea', unitAmount: 1 },
        { sku: 'milk', unitAmount: 2 },
      ],
      metadata: { a: '1', b: '2' },
    });
    const metadata = await patch(id, { metadata: { b: '3' } }, { 'If-Match': '"1"' });
    const items = await patch(id, { items: [{ sku: 'milk', unitAmount: 2 }] }, { 'If-Match': '"2"' });
    const none = await patch(id, { metadata: {} }, { 'If-Match': '"3"' });

    expect(metadata.body.metadata).toEqual({ b: '3' });
    expect(items.body.items).toEqual([{ sku: 'milk', quantity: 1, unitAmount: 2 }]);
    expect([none.body.metadata, none.body.totalAmount, none.body.version]).toEqual([{}, 2, 4]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 4, keys: 1 });
  });

  it('must name a version', async () => {
    const { id } = await createOrder(service);
    const refused = await patch(id, { metadata: { a: 'b' } });

    expect([refused.status, refused.body.code]).toEqual([428, 'precondition-required']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each(['"2"', '"0"', 'W/"1"', '1', '"1" "2"', '"abc"'])(
    'for another version, or for none that can be read, is refused with the present ETag: If-Match %s',
    async (tag) => {
      const { id } = await createOrder(service);
      const refused = await patch(id, { metadata: { a: 'b' } }, { 'If-Match': tag });

      expect([refused.status, refused.body.code, refused.headers.etag]).toEqual([412, 'precondition-failed', '"1"']);
      expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
    },
  );

  it.each(['*', '"7", "1"'])('may name any version, or several: If-Match %s', async (tag) => {
    const { id } = await createOrder(service);

    expect((await patch(id, { metadata: { a: 'b' } }, { 'If-Match': tag })).headers.etag).toBe('"2"');
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.updated 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('that is there already is a retry, whatever version it was made for (RFC 9110, 13.1.1)', async () => {
    const { id } = await createOrder(service);
    const changes = { metadata: { a: 'b' }, items: [{ sku: 'coffee', unitAmount: 300 }] };
    const first = await patch(id, changes, { 'If-Match': '"1"' });
    const retry = await patch(id, changes, { 'If-Match': '"1"' });

    expect([retry.status, retry.headers.etag]).toEqual([200, '"2"']);
    expect(retry.body).toEqual(first.body);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.updated 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it.each(['"1"', '"9"'])('of nothing changes nothing: {} with If-Match %s', async (tag) => {
    const order = await createOrder(service);
    const unchanged = await patch(order.id, {}, { 'If-Match': tag });

    expect([unchanged.status, unchanged.headers.etag]).toEqual([200, '"1"']);
    expect(unchanged.body).toEqual(order);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('of a stale copy after ten edits is refused, and changes nothing (K19)', async () => {
    const { id } = await createOrder(service);
    for (let version = 1; version <= 10; version++) {
      const edit = await patch(id, { metadata: { edit: `${version}` } }, { 'If-Match': `"${version}"` });
      expect(edit.headers.etag).toBe(`"${version + 1}"`);
    }
    const before = (await service.as().get(`/v1/orders/${id}`)).body;
    const stale = await patch(id, { metadata: { edit: 'stale' } }, { 'If-Match': '"1"' });

    expect([stale.status, stale.headers.etag]).toEqual([412, '"11"']);
    expect((await service.as().get(`/v1/orders/${id}`)).body).toEqual(before);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 11, keys: 1 });
  });

  it('of one version happens once, however many try at the same moment', async () => {
    const { id } = await createOrder(service);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => patch(id, { metadata: { writer: `${n}` } }, { 'If-Match': '"1"' })),
    );

    expect(tally(answers)).toEqual({ 200: 1, 412: 19 });
    const { body: winner } = answers.find(({ status }) => status === 200)!;
    expect((await service.as().get(`/v1/orders/${id}`)).body).toEqual(winner);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.updated 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });
});

describe('PATCH under a key', () => {
  it('is replayed: the answer of then, not of now', async () => {
    const { id } = await createOrder(service);
    const first = await patch(id, { metadata: { a: '1' } }, { 'If-Match': '"1"' }, 'k-1');
    await patch(id, { metadata: { a: '2' } }, { 'If-Match': '"2"' });
    const again = await patch(id, { metadata: { a: '1' } }, { 'If-Match': '"1"' }, 'k-1');

    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect([again.status, again.headers.etag, again.headers['idempotent-replayed']]).toEqual([200, '"2"', 'true']);
    expect(again.bytes).toEqual(first.bytes);
    expect((await service.as().get(`/v1/orders/${id}`)).body.metadata).toEqual({ a: '2' });
    expect(await service.database.counts()).toEqual({ orders: 1, events: 3, keys: 2 });
  });

  it('takes a quantity that is left out for the 1 it stands for (M5)', async () => {
    const { id } = await createOrder(service);
    await patch(id, { items: [{ sku: 'tea', unitAmount: 5 }] }, { 'If-Match': '"1"' }, 'k-1');
    const again = await patch(
      id,
      { items: [{ sku: 'tea', quantity: 1, unitAmount: 5 }] },
      { 'If-Match': '"1"' },
      'k-1',
    );

    expect([again.status, again.headers['idempotent-replayed']]).toEqual([200, 'true']);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.updated 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it('does not take metadata that is left out for metadata that is empty', async () => {
    const { id } = await createOrder(service, { metadata: { a: 'b' } });
    await patch(id, { items: [{ sku: 'tea', unitAmount: 5 }] }, { 'If-Match': '"1"' }, 'k-1');
    const other = await patch(
      id,
      { items: [{ sku: 'tea', unitAmount: 5 }], metadata: {} },
      { 'If-Match': '"2"' },
      'k-1',
    );

    expect([other.status, other.body.code]).toEqual([422, 'idempotency-key-reused']);
    expect((await service.as().get(`/v1/orders/${id}`)).body.metadata).toEqual({ a: 'b' });
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it('that failed its condition leaves the key free for the attempt with the right version', async () => {
    const { id } = await createOrder(service);
    const stale = await patch(id, { metadata: { a: '1' } }, { 'If-Match': '"7"' }, 'k-1');
    const none = await patch(id, { metadata: { a: '1' } }, {}, 'k-1');
    expect([stale.status, none.status, await service.database.count('idempotency_keys')]).toEqual([412, 428, 1]);

    const right = await patch(id, { metadata: { a: '1' } }, { 'If-Match': '"1"' }, 'k-1');
    expect([right.status, right.headers['idempotent-replayed']]).toEqual([200, undefined]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it('that the state refuses for good is replayed as refused (K9)', async () => {
    const { id } = await createOrder(service);
    await service.as().put(`/v1/orders/${id}/status`, { status: 'cancelled' });
    const first = await patch(id, { metadata: { a: 'b' } }, { 'If-Match': '"2"' }, 'k-1');
    const again = await patch(id, { metadata: { a: 'b' } }, { 'If-Match': '"2"' }, 'k-1');

    expect([first.status, first.body.code]).toEqual([409, 'order-not-editable']);
    expect(again.bytes).toEqual(first.bytes);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it('is scoped to its endpoint: the key of a POST is another one (M4)', async () => {
    const created = await service.as().post('/v1/orders', newOrder(), 'k-1');
    const changed = await patch(created.body.id, { metadata: { a: 'b' } }, { 'If-Match': '"1"' }, 'k-1');

    expect([changed.status, changed.headers['idempotent-replayed']]).toEqual([200, undefined]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });
});
