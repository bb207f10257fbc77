import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { createOrder, eventsOf, tally, waitForBlocked } from './order-effects.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start({ RATE_LIMIT: '0' })));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const put = (ref: string, body: unknown, headers: Record<string, string> = {}) =>
  service.as().put(`/v1/orders/by-external-ref/${ref}`, body, headers);
const other = newOrder({ items: [{ sku: 'coffee', quantity: 1, unitAmount: 300 }] });

describe('PUT /v1/orders/by-external-ref/{externalRef} (M24)', () => {
  it('creates the order where there is none', async () => {
    const created = await put('web-1', newOrder());

    expect([created.status, created.headers.etag]).toEqual([201, '"1"']);
    expect(created.headers.location).toBe(`/v1/orders/${created.body.id}`);
    expect(created.body).toMatchObject({ externalRef: 'web-1', status: 'pending', version: 1, totalAmount: 900 });
    expect((await service.as().get(created.headers.location!)).body).toEqual(created.body);
    expect(await eventsOf(service, created.body.id)).toEqual(['order.created 1']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('gives an existing order the new content: its id and createdAt stay', async () => {
    const order = await createOrder(service, { externalRef: 'web-1', metadata: { a: 'b' } });
    const updated = await put('web-1', { ...other, currency: 'CHF', externalRef: 'web-1' });

    expect([updated.status, updated.headers.etag, updated.headers.location]).toEqual([200, '"2"', undefined]);
    expect(updated.body).toEqual({
      ...order,
      currency: 'CHF',
      items: other.items,
      totalAmount: 300,
      metadata: {},
      version: 2,
      updatedAt: expect.any(String),
    });
    expect(updated.body.updatedAt >= order.updatedAt).toBe(true);
    expect(await eventsOf(service, order.id)).toEqual(['order.created 1', 'order.updated 2']);
    const [event] = await service.database.query('SELECT payload FROM outbox WHERE aggregateversion = 2');
    expect(event!.payload).toEqual(updated.body);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('changes nothing when the content is there already: same version, no event', async () => {
    const first = await put('web-1', newOrder({ metadata: { b: '2', a: '1' } }));
    const again = await put('web-1', newOrder({ metadata: { a: '1', b: '2' }, externalRef: 'web-1' }));

    expect([again.status, again.headers.etag]).toEqual([200, '"1"']);
    expect(again.body).toEqual(first.body);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('takes -0 for 0: a repeat of it is no change either', async () => {
    const body = '{"currency":"EUR","items":[{"sku":"a","unitAmount":1},{"sku":"b","unitAmount":-0}]}';
    const answers = [await put('web-1', body), await put('web-1', body), await put('web-1', body)];

    expect(answers.map(({ status, body: { version } }) => [status, version])).toEqual([
      [201, 1],
      [200, 1],
      [200, 1],
    ]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('sees a change of nothing but the order of the items', async () => {
    const items = [
      { sku: 'a', quantity: 1, unitAmount: 1 },
      { sku: 'b', quantity: 1, unitAmount: 2 },
    ];
    await put('web-1', newOrder({ items }));
    const reordered = await put('web-1', newOrder({ items: [...items].reverse() }));

    expect([reordered.status, reordered.body.version]).toEqual([200, 2]);
    expect(reordered.body.items).toEqual([...items].reverse());
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 0 });
  });

  it('refuses a body that names another reference', async () => {
    const refused = await put('web-1', newOrder({ externalRef: 'web-2' }));

    expect([refused.status, refused.body.code]).toEqual([400, 'validation-failed']);
    expect(refused.body.errors).toEqual([{ pointer: '/externalRef', detail: expect.any(String) }]);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('leaves an order that is not pending as it is', async () => {
    const order = await createOrder(service, { externalRef: 'web-1' });
    await service.as().put(`/v1/orders/${order.id}/status`, { status: 'cancelled' });
    const [same, changed] = [await put('web-1', newOrder()), await put('web-1', other)];

    expect([same.status, same.headers.etag]).toEqual([200, '"2"']);
    expect([changed.status, changed.body.code, changed.body.orderId]).toEqual([409, 'order-not-editable', order.id]);
    expect(await eventsOf(service, order.id)).toEqual(['order.created 1', 'order.cancelled 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('makes a new order once the one of that reference is deleted', async () => {
    const first = await put('web-1', newOrder());
    await service.as().delete(`/v1/orders/${first.body.id}`);
    const second = await put('web-1', newOrder());

    expect([second.status, second.body.version]).toEqual([201, 1]);
    expect(second.body.id).not.toBe(first.body.id);
    expect(await eventsOf(service, first.body.id)).toEqual(['order.created 1', 'order.deleted 2']);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 3, keys: 0 });
  });

  it('keeps the references of two tenants apart', async () => {
    const ours = await put('web-1', newOrder());
    const theirs = await service.as(GLOBEX).put('/v1/orders/by-external-ref/web-1', other);

    expect([ours.status, theirs.status]).toEqual([201, 201]);
    expect((await service.as().get(`/v1/orders/${ours.body.id}`)).body).toEqual(ours.body);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 0 });
  });
});

describe('a reference in a path', () => {
  it.each([
    ['with a slash', 'shop/2026/1'],
    ['with blanks, percent and plus', ' 100% + 1 '],
    ['beyond ASCII', 'Größe-№5-🫖'],
    ['of one character', '?'],
    ['that looks like a status route', 'status'],
    ['that looks like another reference', 'by-external-ref/status'],
    ['of 255 characters', 'r'.repeat(255)],
    ['of 255 characters beyond the basic plane', '🫖'.repeat(255)],
  ])('is decoded: %s', async (_what, ref) => {
    const path = encodeURIComponent(ref);
    const order = await createOrder(service, { externalRef: ref });
    const same = await put(path, newOrder());

    expect([same.status, same.body]).toEqual([200, order]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('keeps composed and decomposed letters apart', async () => {
    const answers = [await put(encodeURIComponent('caf\u00e9'), newOrder()), await put('cafe%CC%81', newOrder())];

    expect(tally(answers)).toEqual({ 201: 2 });
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 0 });
  });

  it.each([
    ['with NUL', 'web%00'],
    ['of 256 characters', 'r'.repeat(256)],
    ['of 300 characters', 'r'.repeat(300)],
  ])('is refused %s', async (_what, path) => {
    const refused = await put(path, newOrder());

    expect([refused.status, refused.body.code]).toEqual([400, 'validation-failed']);
    expect(refused.body.errors).toEqual([{ pointer: '/externalRef', detail: expect.any(String) }]);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('a condition of the upsert', () => {
  it('If-Match is honoured: the version it names is replaced, another is not', async () => {
    const { id } = await createOrder(service, { externalRef: 'web-1' });
    const updated = await put('web-1', other, { 'If-Match': '"1"' });
    const stale = await put('web-1', newOrder({ currency: 'CHF' }), { 'If-Match': '"1"' });
    const retry = await put('web-1', other, { 'If-Match': '"1"' });

    expect([updated.status, updated.headers.etag]).toEqual([200, '"2"']);
    expect([stale.status, stale.body.code, stale.headers.etag]).toEqual([412, 'precondition-failed', '"2"']);
    expect([retry.status, retry.headers.etag]).toEqual([200, '"2"']);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.updated 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('If-Match holds for nothing where there is no order', async () => {
    expect((await put('web-1', newOrder(), { 'If-Match': '*' })).status).toBe(412);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('If-None-Match: * creates, and does not touch what exists', async () => {
    const answers = [
      await put('web-1', newOrder(), { 'If-None-Match': '*' }),
      await put('web-1', other, { 'If-None-Match': '*' }),
      await put('web-1', newOrder(), { 'If-None-Match': '*' }),
    ];

    expect(answers.map(({ status }) => status)).toEqual([201, 412, 412]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });
});

describe('upserts of one reference at the same moment', () => {
  it('make one order of one new reference, and one event for each version', async () => {
    const writers = Array.from({ length: 30 }, (_, n) => n);
    const answers = await Promise.all(
      writers.map((n) => put('web-1', newOrder({ metadata: { writer: `${n % 10}` } }))),
    );

    expect(tally(answers)).toEqual({ 200: 29, 201: 1 });
    const { id } = answers[0]!.body;
    expect(new Set(answers.map(({ body }) => body.id))).toEqual(new Set([id]));
    const events = await eventsOf(service, id);
    expect(events).toEqual(['order.created 1', ...events.slice(1).map((_, n) => `order.updated ${n + 2}`)]);
    const order = (await service.as().get(`/v1/orders/${id}`)).body;
    expect(order.version).toBe(events.length);
    // What an answer says of its version is what the event of that version says.
    for (const { body } of answers) {
      const [event] = await service.database.query('SELECT payload FROM outbox WHERE aggregateversion = $1', [
        body.version,
      ]);
      expect(event!.payload).toEqual(body);
    }
    expect(await service.database.counts()).toEqual({ orders: 1, events: events.length, keys: 0 });
  });

  it('make one order and one event when they are the same', async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => put('web-1', newOrder())));

    expect(tally(answers)).toEqual({ 200: 29, 201: 1 });
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('find a reference that becomes free while they wait for it', async () => {
    const { id } = await createOrder(service, { externalRef: 'web-1' });
    const rival = await service.database.connect();
    await rival.query('BEGIN');
    await rival.query(`UPDATE orders SET deleted_at = now(), version = version + 1 WHERE tenant_id = $1 AND id = $2`, [
      ACME.tenantId,
      id,
    ]);
    const putting = put('web-1', other);
    await waitForBlocked(service);
    await rival.query('COMMIT');
    await rival.end();
    const { status, body } = await putting;

    expect(status).toBe(201);
    expect(body.id).not.toBe(id);
    expect(await eventsOf(service, body.id)).toEqual(['order.created 1']);
    expect(await service.database.count('orders', 'deleted_at IS NULL')).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 1 });
  });

  it('and creations under keys share the one order', async () => {
    const creating = Array.from({ length: 10 }, () =>
      service.as().post('/v1/orders', newOrder({ externalRef: 'web-1' }), randomUUID()),
    );
    const [created, upserted] = await Promise.all([
      Promise.all(creating),
      Promise.all(Array.from({ length: 10 }, () => put('web-1', newOrder()))),
    ]);

    const statuses = tally([...created, ...upserted]);
    expect(statuses[201]).toBe(1);
    expect((statuses[200] ?? 0) + (statuses[409] ?? 0)).toBe(19);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 10 });
  });
});
