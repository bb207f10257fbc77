import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';
import { createOrder, eventsOf, tally } from './order-effects.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const assign = (id: string, status: string, headers: Record<string, string> = {}) =>
  service.as().put(`/v1/orders/${id}/status`, { status }, headers);
const remove = (id: string, headers: Record<string, string> = {}) => service.as().delete(`/v1/orders/${id}`, headers);

describe('PUT /v1/orders/{id}/status (M25)', () => {
  it('cancels an order, once', async () => {
    const order = await createOrder(service);
    const first = await assign(order.id, 'cancelled');
    const again = await assign(order.id, 'cancelled');

    expect([first.status, first.headers.etag]).toEqual([200, '"2"']);
    expect(first.body).toEqual({ ...order, status: 'cancelled', version: 2, updatedAt: expect.any(String) });
    expect([again.status, again.headers.etag]).toEqual([200, '"2"']);
    expect(again.body).toEqual(first.body);
    expect(await eventsOf(service, order.id)).toEqual(['order.created 1', 'order.cancelled 2']);
    const [event] = await service.database.query('SELECT payload FROM outbox WHERE aggregateversion = 2');
    expect(event!.payload).toEqual(first.body);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('cancels once, however many do so at the same moment', async () => {
    const { id } = await createOrder(service);
    const answers = await Promise.all(Array.from({ length: 20 }, () => assign(id, 'cancelled')));

    expect(tally(answers)).toEqual({ 200: 20 });
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.cancelled 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('honours If-Match, but a stale one that changes nothing is a retry', async () => {
    const { id } = await createOrder(service);
    const stale = await assign(id, 'cancelled', { 'If-Match': '"7"' });
    expect([stale.status, stale.body.code, stale.headers.etag]).toEqual([412, 'precondition-failed', '"1"']);
    expect(await eventsOf(service, id)).toEqual(['order.created 1']);

    const answers = [
      await assign(id, 'cancelled', { 'If-Match': '"1"' }),
      await assign(id, 'cancelled', { 'If-Match': '"1"' }),
    ];
    expect(answers.map(({ status, headers }) => [status, headers.etag])).toEqual([
      [200, '"2"'],
      [200, '"2"'],
    ]);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.cancelled 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });
});

describe('DELETE /v1/orders/{id} (M27)', () => {
  it('deletes once, and is 404 from then on', async () => {
    const { id } = await createOrder(service);
    const [first, again] = [await remove(id), await remove(id)];

    expect([first.status, first.text]).toEqual([204, '']);
    expect([again.status, again.body.code]).toEqual([404, 'not-found']);
    expect((await service.as().get(`/v1/orders/${id}`)).status).toBe(404);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.deleted 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('leaves a tombstone one version on, and tells of the order as it last was', async () => {
    const order = await createOrder(service, { externalRef: 'web-1' });
    const last = await service.as().patch(`/v1/orders/${order.id}`, { metadata: { a: 'b' } }, { 'If-Match': '"1"' });
    await remove(order.id);

    const rows = await service.database.query('SELECT id, version FROM orders WHERE deleted_at IS NOT NULL');
    expect(rows).toEqual([{ id: order.id, version: 3 }]);
    const { data: events } = (await service.as().get(`/v1/events?subject=${order.id}`)).body;
    expect(events[2]).toMatchObject({ type: 'order.deleted', aggregateversion: '3', data: last.body });
    expect(events[2].data.version).toBe(2);
    expect(await eventsOf(service, order.id)).toEqual(['order.created 1', 'order.updated 2', 'order.deleted 3']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 3, keys: 1 });
  });

  it('deletes a cancelled order, too', async () => {
    const { id } = await createOrder(service);
    await assign(id, 'cancelled');

    expect((await remove(id)).status).toBe(204);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.cancelled 2', 'order.deleted 3']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 3, keys: 1 });
  });

  it('makes the external reference free for another order', async () => {
    const first = await createOrder(service, { externalRef: 'web-1' });
    await remove(first.id);
    const second = await createOrder(service, { externalRef: 'web-1' });

    expect(second.id).not.toBe(first.id);
    expect((await service.as().get('/v1/orders?externalRef=web-1')).body.data).toEqual([second]);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 3, keys: 2 });
  });

  it('honours If-Match', async () => {
    const { id } = await createOrder(service);
    const stale = await remove(id, { 'If-Match': '"7"' });
    expect([stale.status, stale.headers.etag]).toEqual([412, '"1"']);
    expect(await eventsOf(service, id)).toEqual(['order.created 1']);

    expect((await remove(id, { 'If-Match': '"1"' })).status).toBe(204);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.deleted 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('has one effect, however many delete at the same moment', async () => {
    const { id } = await createOrder(service);
    const answers = await Promise.all(Array.from({ length: 20 }, () => remove(id)));

    expect(tally(answers)).toEqual({ 204: 1, 404: 19 });
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.deleted 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });
});

describe('an order that is not pending', () => {
  const sent = newOrder({ externalRef: 'web-1', metadata: { a: 'b' } });
  const other = newOrder({ externalRef: 'web-1' });
  const edits: [string, string, string, unknown][] = [
    ['PUT by id', 'PUT', '', other],
    ['PATCH', 'PATCH', '', { metadata: {} }],
  ];
  const edit = (method: string, path: string, body: unknown, etag: string) =>
    service.as().send(method, path, { body, headers: { 'If-Match': etag } });

  it.each(edits)('%s: a cancelled one is not edited', async (_name, method, path, body) => {
    const { id } = await createOrder(service, sent);
    await assign(id, 'cancelled');
    const refused = await edit(method, `/v1/orders/${id}${path}`, body, '"2"');

    expect([refused.status, refused.body.code, refused.body.orderId]).toEqual([409, 'order-not-editable', id]);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.cancelled 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it.each([
    ['PUT by id', 'PUT', '', sent],
    ['PATCH', 'PATCH', '', { metadata: { a: 'b' } }],
    ['PATCH of nothing', 'PATCH', '', {}],
  ])('%s: an edit that changes nothing is 200 all the same', async (_name, method, path, body) => {
    const { id } = await createOrder(service, sent);
    await assign(id, 'cancelled');
    const unchanged = await edit(method, `/v1/orders/${id}${path}`, body, '"1"');

    expect([unchanged.status, unchanged.headers.etag, unchanged.body.status]).toEqual([200, '"2"', 'cancelled']);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.cancelled 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it.each(edits)('%s: a stale version is told before the state (412, not 409)', async (_name, method, path, body) => {
    const { id } = await createOrder(service, sent);
    await assign(id, 'cancelled');

    expect((await edit(method, `/v1/orders/${id}${path}`, body, '"1"')).status).toBe(412);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it.each(['paid', 'partially_refunded', 'refunded'])('%s: it is not edited, cancelled or deleted', async (status) => {
    const order = await createOrder(service, sent);
    await service.database.query('UPDATE orders SET status = $1', [status]);
    const answers = [
      await edit('PUT', `/v1/orders/${order.id}`, other, '"1"'),
      await edit('PATCH', `/v1/orders/${order.id}`, { metadata: {} }, '"1"'),
      await edit('PUT', '/v1/orders/by-external-ref/web-1', other, '"1"'),
      await service.as().put('/v1/orders/by-external-ref/web-1', other),
      await assign(order.id, 'cancelled'),
      await remove(order.id),
    ];

    for (const { status: answered, body } of answers) {
      expect([answered, body.code, body.orderId]).toEqual([409, 'order-not-editable', order.id]);
    }
    expect((await service.as().get(`/v1/orders/${order.id}`)).body).toEqual({ ...order, status });
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});
