import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { GLOBEX, TestApp } from '../support/test-app.js';
import { createOrder, eventsOf, tally } from './order-effects.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

describe('POST /v1/orders', () => {
  it('creates one order, tells of it once, and says where it is', async () => {
    const sent = newOrder({ externalRef: 'web-1', metadata: { till: '7' } });
    const created = await service.as().post('/v1/orders', sent);

    expect(created.status).toBe(201);
    expect(created.headers.etag).toBe('"1"');
    expect(created.headers.location).toBe(`/v1/orders/${created.body.id}`);
    expect(created.body).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
      externalRef: 'web-1',
      status: 'pending',
      currency: 'EUR',
      items: [{ sku: 'tea', quantity: 2, unitAmount: 450 }],
      totalAmount: 900,
      metadata: { till: '7' },
      version: 1,
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: created.body.createdAt,
    });
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
    expect(await eventsOf(service, created.body.id)).toEqual(['order.created 1']);
    const [event] = await service.database.query('SELECT payload FROM outbox');
    expect(event!.payload).toEqual(created.body);
    expect((await service.as().get(created.headers.location!)).body).toEqual(created.body);
  });

  it('fills in what may be left out', async () => {
    const order = await createOrder(service, { items: [{ sku: 'tea', unitAmount: 450 }] });

    expect(order).toMatchObject({ externalRef: null, metadata: {}, totalAmount: 450 });
    expect(order.items).toEqual([{ sku: 'tea', quantity: 1, unitAmount: 450 }]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('keeps text as it was sent, letter by letter', async () => {
    const metadata = { composed: '\u00e9', decomposed: 'e\u0301', emoji: '🫖', quoted: `"'\\ \t`, '': 'nameless' };
    const order = await createOrder(service, { metadata, externalRef: 'Ünï/ 🫖' });

    expect(order.metadata).toEqual(metadata);
    expect((await service.as().get(`/v1/orders/${order.id}`)).body).toMatchObject({ metadata, externalRef: 'Ünï/ 🫖' });
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('keeps metadata whose name means something in JavaScript', async () => {
    const metadata = { constructor: 'a', toString: 'b', hasOwnProperty: 'c', length: 'd', prototype: 'e' };
    const order = await createOrder(service, { metadata });

    expect(order.metadata).toEqual(metadata);
    const [row] = await service.database.query('SELECT metadata FROM orders');
    expect(row!.metadata).toEqual(metadata);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('takes a hundred items, fifty members of metadata and the largest total', async () => {
    const items = Array.from({ length: 100 }, (_, index) => ({ sku: `sku-${index}`, quantity: 1, unitAmount: 0 }));
    items[99] = { sku: 'all', quantity: 1, unitAmount: Number.MAX_SAFE_INTEGER };
    const metadata = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`m${index}`, String(index)]));
    const order = await createOrder(service, { items, metadata });

    expect(order.items).toEqual(items);
    expect(order.metadata).toEqual(metadata);
    expect(order.totalAmount).toBe(9007199254740991);
    expect((await service.as().get(`/v1/orders/${order.id}`)).body.totalAmount).toBe(9007199254740991);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('keeps nothing of clientContext, and it makes no other request of a repeat (M5)', async () => {
    const first = await service.as().post('/v1/orders', newOrder({ clientContext: { attempt: 'SPURLOS-1' } }), 'k-1');
    const second = await service.as().post('/v1/orders', newOrder({ clientContext: { attempt: 'SPURLOS-2' } }), 'k-1');

    expect(first.status).toBe(201);
    expect(first.text).not.toContain('SPURLOS');
    expect(second.headers['idempotent-replayed']).toBe('true');
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
    const [dump] = await service.database.query<{ text: string }>(`
      SELECT concat((SELECT json_agg(o) FROM orders o), (SELECT json_agg(e) FROM outbox e),
                    (SELECT string_agg(convert_from(response_body, 'UTF8'), '') FROM idempotency_keys)) AS text`);
    expect(dump!.text).toContain('tea');
    expect(dump!.text).not.toContain('SPURLOS');
  });

  it('needs a key (M11)', async () => {
    const { status, body } = await service.as().send('POST', '/v1/orders', { body: newOrder() });

    expect([status, body.code]).toEqual([400, 'idempotency-key-missing']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('an external reference', () => {
  it('names one order: a second is refused with the id of the first', async () => {
    const first = await createOrder(service, { externalRef: 'web-1' });
    const second = await service.as().post('/v1/orders', newOrder({ externalRef: 'web-1' }), 'k-2');
    const again = await service.as().post('/v1/orders', newOrder({ externalRef: 'web-1' }), 'k-2');

    expect([second.status, second.body.code]).toEqual([409, 'duplicate-external-ref']);
    expect(second.body.orderId).toBe(first.id);
    expect(again.bytes).toEqual(second.bytes);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 2 });
  });

  it('protects after the key has expired (K12)', async () => {
    const body = newOrder({ externalRef: 'web-1' });
    const first = await service.as().post('/v1/orders', body, 'k-1');
    await service.database.query(`UPDATE idempotency_keys SET expires_at = statement_timestamp()`);
    const late = await service.as().post('/v1/orders', body, 'k-1');

    expect([late.status, late.body.code, late.body.orderId]).toEqual([409, 'duplicate-external-ref', first.body.id]);
    expect(late.headers['idempotent-replayed']).toBeUndefined();
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('is given once, however many ask for it at the same moment', async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () =>
        service.as().post('/v1/orders', newOrder({ externalRef: 'web-1' }), randomUUID()),
      ),
    );

    expect(tally(answers)).toEqual({ 201: 1, 409: 19 });
    const { id } = answers.find(({ status }) => status === 201)!.body;
    const refusals = answers.filter(({ status }) => status === 409);
    expect(refusals.map(({ body }) => [body.code, body.orderId])).toEqual(
      refusals.map(() => ['duplicate-external-ref', id]),
    );
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 20 });
  });

  it('belongs to its tenant', async () => {
    const ours = await createOrder(service, { externalRef: 'web-1' });
    const theirs = await service.as(GLOBEX).post('/v1/orders', newOrder({ externalRef: 'web-1' }));

    expect(theirs.status).toBe(201);
    expect(theirs.body.id).not.toBe(ours.id);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 2 });
  });
});
