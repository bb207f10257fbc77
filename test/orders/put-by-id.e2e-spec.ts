import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { createOrder, eventsOf, tally, waitForBlocked } from './order-effects.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const put = (id: string, body: unknown, headers: Record<string, string> = {}) =>
  service.as().put(`/v1/orders/${id}`, body, headers);
const other = newOrder({ items: [{ sku: 'coffee', quantity: 1, unitAmount: 300 }] });

describe('PUT /v1/orders/{id} (M26)', () => {
  it('creates the order under the id that the client chose', async () => {
    const id = randomUUID();
    const created = await put(id, newOrder({ metadata: { a: 'b' } }));

    expect(created.status).toBe(201);
    expect(created.headers.location).toBe(`/v1/orders/${id}`);
    expect(created.headers.etag).toBe('"1"');
    expect(created.body).toMatchObject({ id, status: 'pending', totalAmount: 900, metadata: { a: 'b' }, version: 1 });
    expect((await service.as().get(`/v1/orders/${id}`)).body).toEqual(created.body);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
    expect(await eventsOf(service, id)).toEqual(['order.created 1']);
  });

  it('changes nothing when it comes again, however often and however it is written', async () => {
    const id = randomUUID();
    const first = await put(id, newOrder({ externalRef: 'web-1' }));
    const again = await put(id, newOrder({ externalRef: 'web-1' }));
    const differently = await put(
      id,
      '{"metadata":{},"externalRef":"web-1","items":[{"unitAmount":45e1,"quantity":2.0,"sku":"t\\u0065a"}],"currency":"EUR","clientContext":{"attempt":3}}',
    );

    for (const repeat of [again, differently]) {
      expect([repeat.status, repeat.headers.etag, repeat.headers.location]).toEqual([200, '"1"', undefined]);
      expect(repeat.body).toEqual(first.body);
    }
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('takes -0 for 0: a repeat of it is no change either', async () => {
    const id = randomUUID();
    const body = '{"currency":"EUR","items":[{"sku":"a","unitAmount":1},{"sku":"b","unitAmount":-0}]}';
    const [first, again] = [await put(id, body), await put(id, body)];

    expect([first.status, again.status, again.body.version]).toEqual([201, 200, 1]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('takes any UUID, in capital letters, too, for the same order', async () => {
    const id = 'abcdef01-2345-0789-0bcd-ef0123456789';
    const created = await put(id.toUpperCase(), newOrder());

    expect([created.status, created.body.id, created.headers.location]).toEqual([201, id, `/v1/orders/${id}`]);
    expect((await put(id, newOrder())).status).toBe(200);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('keeps the ids of two tenants apart', async () => {
    const id = randomUUID();
    const [ours, theirs] = [await put(id, newOrder()), await service.as(GLOBEX).put(`/v1/orders/${id}`, other)];

    expect([ours.status, theirs.status]).toEqual([201, 201]);
    expect((await service.as().get(`/v1/orders/${id}`)).body).toEqual(ours.body);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 0 });
  });
});

describe('PUT with other content', () => {
  it('must name the version that it replaces', async () => {
    const { id } = await createOrder(service);
    const refused = await put(id, other);

    expect([refused.status, refused.body.code]).toEqual([428, 'precondition-required']);
    expect(await eventsOf(service, id)).toEqual(['order.created 1']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('replaces the whole content of that version', async () => {
    const order = await createOrder(service, { externalRef: 'web-1', metadata: { a: 'b' } });
    const replaced = await put(order.id, { ...other, currency: 'CHF' }, { 'If-Match': '"1"' });

    expect([replaced.status, replaced.headers.etag]).toEqual([200, '"2"']);
    expect(replaced.body).toEqual({
      ...order,
      externalRef: null,
      currency: 'CHF',
      items: other.items,
      totalAmount: 300,
      metadata: {},
      version: 2,
      updatedAt: expect.any(String),
    });
    expect(await eventsOf(service, order.id)).toEqual(['order.created 1', 'order.updated 2']);
    const [event] = await service.database.query('SELECT payload FROM outbox WHERE aggregateversion = 2');
    expect(event!.payload).toEqual(replaced.body);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('made for another version is refused, and told the present one', async () => {
    const { id } = await createOrder(service);
    await put(id, other, { 'If-Match': '"1"' });
    const stale = await put(id, newOrder({ currency: 'CHF' }), { 'If-Match': '"1"' });

    expect([stale.status, stale.body.code, stale.headers.etag]).toEqual([412, 'precondition-failed', '"2"']);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.updated 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('that is there already is a retry, whatever version it was made for (RFC 9110, 13.1.1)', async () => {
    const { id } = await createOrder(service);
    await put(id, other, { 'If-Match': '"1"' });
    const retry = await put(id, other, { 'If-Match': '"1"' });

    expect([retry.status, retry.headers.etag]).toEqual([200, '"2"']);
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.updated 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });
});

describe('a condition of PUT', () => {
  it('If-None-Match: * creates, and does not touch what exists', async () => {
    const id = randomUUID();
    const created = await put(id, newOrder(), { 'If-None-Match': '*' });
    const again = await put(id, newOrder(), { 'If-None-Match': '*' });

    expect(created.status).toBe(201);
    expect([again.status, again.body.code, again.headers.etag]).toEqual([412, 'precondition-failed', '"1"']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it.each(['"1"', '*'])('If-Match: %s does not hold where there is no order', async (tag) => {
    const refused = await put(randomUUID(), newOrder(), { 'If-Match': tag });

    expect([refused.status, refused.body.code, refused.headers.etag]).toEqual([412, 'precondition-failed', undefined]);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('an id that is spent', () => {
  it('is not given again: 410, to every kind of PUT', async () => {
    const { id } = await createOrder(service);
    await service.as().delete(`/v1/orders/${id}`);

    for (const headers of [{}, { 'If-Match': '"2"' }, { 'If-None-Match': '*' }] as Record<string, string>[]) {
      const gone = await put(id, newOrder(), headers);
      expect([gone.status, gone.body.code]).toEqual([410, 'order-deleted']);
    }
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });
});

describe('an external reference that another order has', () => {
  it('is refused to a new order and to an edit, with the id of that order', async () => {
    const [holder, edited] = [await createOrder(service, { externalRef: 'web-1' }), await createOrder(service)];
    const absent = await put(randomUUID(), newOrder({ externalRef: 'web-1' }));
    const edit = await put(edited.id, newOrder({ externalRef: 'web-1' }), { 'If-Match': '"1"' });

    for (const { status, body } of [absent, edit]) {
      expect([status, body.code, body.orderId]).toEqual([409, 'duplicate-external-ref', holder.id]);
    }
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 2 });
    expect((await service.as().get(`/v1/orders/${edited.id}`)).body).toEqual(edited);
  });

  it('is refused to an edit that meets its creation', async () => {
    const { id } = await createOrder(service);
    const holder = randomUUID();
    const rival = await service.database.connect();
    await rival.query('BEGIN');
    await rival.query(
      `INSERT INTO orders (tenant_id, id, external_ref, status, currency, items, total_amount, metadata, version)
       VALUES ($1, $2, 'web-1', 'pending', 'EUR', '[]', 1, '{}', 1)`,
      [ACME.tenantId, holder],
    );
    const editing = put(id, newOrder({ externalRef: 'web-1' }), { 'If-Match': '"1"' });
    await waitForBlocked(service);
    await rival.query('COMMIT');
    await rival.end();
    const edit = await editing;

    expect([edit.status, edit.body.code, edit.body.orderId]).toEqual([409, 'duplicate-external-ref', holder]);
    expect(await eventsOf(service, id)).toEqual(['order.created 1']);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 1, keys: 1 });
  });
});

describe('PUTs of one id at the same moment', () => {
  it.each([
    ['without an external reference', {}],
    ['with an external reference', { externalRef: 'web-1' }],
  ])('make one order when they are the same, %s', async (_with, different) => {
    const id = randomUUID();
    const answers = await Promise.all(Array.from({ length: 20 }, () => put(id, newOrder(different))));

    expect(tally(answers)).toEqual({ 200: 19, 201: 1 });
    for (const { body } of answers) expect(body).toEqual(answers[0]!.body);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('make one order when they differ: the others are told that they would overwrite it', async () => {
    const id = randomUUID();
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => put(id, newOrder({ metadata: { writer: `${n}` } }))),
    );

    expect(tally(answers)).toEqual({ 201: 1, 428: 19 });
    const { body: created } = answers.find(({ status }) => status === 201)!;
    expect((await service.as().get(`/v1/orders/${id}`)).body).toEqual(created);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it('replace a version once', async () => {
    const { id } = await createOrder(service);
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => put(id, newOrder({ metadata: { writer: `${n}` } }), { 'If-Match': '"1"' })),
    );

    expect(tally(answers)).toEqual({ 200: 1, 412: 19 });
    expect(answers.filter(({ status }) => status === 412).map(({ headers }) => headers.etag)).toEqual(
      Array(19).fill('"2"'),
    );
    expect(await eventsOf(service, id)).toEqual(['order.created 1', 'order.updated 2']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });
});
