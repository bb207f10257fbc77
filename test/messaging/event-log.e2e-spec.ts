import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { CloudEvent } from '../../src/messaging/cloud-event.js';
import { newOrder } from '../support/api-client.js';
import { createOrder, eventsOf } from '../orders/order-effects.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { insertEvents } from './outbox-writer.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const read = async (query = '') => (await service.as().get(`/v1/events?${query}`)).body;
const typesOf = (page: { data: { type: string }[] }) => page.data.map(({ type }) => type);

describe('an event', () => {
  it('is a CloudEvents 1.0 envelope around the resource as GET shows it', async () => {
    const created = (await service.as().post('/v1/orders', newOrder({ externalRef: 'web-1' }))).body;
    const { status, headers, body } = await service.as().get('/v1/events');

    expect([status, headers['content-type']]).toEqual([200, 'application/json; charset=utf-8']);
    expect(body).toEqual({
      data: [
        {
          specversion: '1.0',
          id: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
          source: '/v1',
          type: 'order.created',
          subject: created.id,
          time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
          datacontenttype: 'application/json',
          aggregateversion: '1',
          data: created,
        },
      ],
      nextCursor: expect.stringMatching(/^[\w-]+$/),
    });
    const [row] = await service.database.query<{ id: string; created_at: Date }>('SELECT id, created_at FROM outbox');
    expect([body.data[0].id, body.data[0].time]).toEqual([row!.id, row!.created_at.toISOString()]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('tells each change in the order of versions, with the state at that version', async () => {
    const order = await createOrder(service);
    const path = `/v1/orders/${order.id}`;
    const updated = (await service.as().patch(path, { metadata: { a: 'b' } }, { 'If-Match': '"1"' })).body;
    const cancelled = (await service.as().put(`${path}/status`, { status: 'cancelled' })).body;
    await service.as().delete(path);
    const events = (await read()).data as CloudEvent[];

    expect(events.map(({ type, aggregateversion, data }) => [type, aggregateversion, data])).toEqual([
      ['order.created', '1', order],
      ['order.updated', '2', updated],
      ['order.cancelled', '3', cancelled],
      ['order.deleted', '4', cancelled],
    ]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 4, keys: 1 });
  });

  it('and its change stand or fall together: where it cannot be written, nothing has changed', async () => {
    const { id } = await createOrder(service);
    await service.database.query(`ALTER TABLE outbox ADD CONSTRAINT refusal CHECK (type = 'order.created')`);
    try {
      const answers = [
        await service.as().patch(`/v1/orders/${id}`, { metadata: { a: 'b' } }, { 'If-Match': '"1"' }),
        await service.as().put(`/v1/orders/${id}/status`, { status: 'cancelled' }),
        await service.as().delete(`/v1/orders/${id}`),
      ];
      expect(answers.map(({ status }) => status)).toEqual([500, 500, 500]);
    } finally {
      await service.database.query('ALTER TABLE outbox DROP CONSTRAINT refusal');
    }

    expect((await service.as().get(`/v1/orders/${id}`)).headers.etag).toBe('"1"');
    expect(await eventsOf(service, id)).toEqual(['order.created 1']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});

describe('GET /v1/events', () => {
  it('always gives a cursor, which goes on where the page ended and finds what comes later', async () => {
    const empty = await read();
    expect(empty).toEqual({ data: [], nextCursor: expect.any(String) });

    const orders = [await createOrder(service), await createOrder(service), await createOrder(service)];
    const first = await read(`after=${empty.nextCursor}&limit=2`);
    const second = await read(`after=${first.nextCursor}`);
    const end = await read(`after=${second.nextCursor}`);
    const subjects = [...first.data, ...second.data].map(({ subject }: { subject: string }) => subject);
    expect(subjects.sort()).toEqual(orders.map(({ id }) => id).sort());
    expect([first.data.length, second.data.length]).toEqual([2, 1]);
    expect(end).toEqual({ data: [], nextCursor: second.nextCursor });

    const { id } = await createOrder(service);
    const later = await read(`after=${end.nextCursor}`);
    expect(later.data).toMatchObject([{ type: 'order.created', subject: id }]);
    expect(await read(`after=${end.nextCursor}`)).toEqual(later);
    expect(await service.database.counts()).toEqual({ orders: 4, events: 4, keys: 4 });
  });

  it('gives 50 at a time unless told otherwise, and at most 100', async () => {
    await insertEvents(service.database, ACME.tenantId, { aggregates: 1, versions: 120 });

    expect([(await read()).data.length, (await read('limit=100')).data.length]).toEqual([50, 100]);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 120, keys: 0 });
  });

  it('gives the events of one subject, page by page', async () => {
    const [one, two] = [await createOrder(service), await createOrder(service)];
    for (const { id } of [one, two, one, two]) {
      const { headers } = await service.as().get(`/v1/orders/${id}`);
      await service.as().patch(`/v1/orders/${id}`, { metadata: { at: headers.etag! } }, { 'If-Match': '*' });
    }

    const first = await read(`subject=${one.id.toUpperCase()}&limit=2`);
    const second = await read(`subject=${one.id}&limit=2&after=${first.nextCursor}`);
    const end = await read(`subject=${one.id}&limit=2&after=${second.nextCursor}`);
    expect([typesOf(first), typesOf(second)]).toEqual([['order.created', 'order.updated'], ['order.updated']]);
    expect(new Set([...first.data, ...second.data].map(({ subject }) => subject))).toEqual(new Set([one.id]));
    expect(end).toEqual({ data: [], nextCursor: second.nextCursor });
    expect((await read(`subject=${randomUUID()}`)).data).toEqual([]);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 6, keys: 2 });
  });

  it('takes every id for a subject that an order may have', async () => {
    const id = 'abcdef01-2345-0789-0bcd-ef0123456789';
    await service.as().put(`/v1/orders/${id}`, newOrder());
    const { status, body } = await service.as().get(`/v1/events?subject=${id}`);

    expect([status, body.data?.length]).toEqual([200, 1]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 0 });
  });

  it("shows nothing of another tenant's, under that tenant's cursor and subject either", async () => {
    const { id } = await createOrder(service);
    await createOrder(service);
    const { nextCursor } = await read('limit=1');

    for (const query of ['', `subject=${id}`, `after=${nextCursor}`]) {
      expect((await service.as(GLOBEX).get(`/v1/events?${query}`)).body.data).toEqual([]);
    }
    await service.as(GLOBEX).post('/v1/orders', newOrder());
    expect((await service.as(GLOBEX).get('/v1/events')).body.data).toHaveLength(1);
    expect((await read()).data).toHaveLength(2);
    expect(await service.database.counts()).toEqual({ orders: 3, events: 3, keys: 3 });
  });

  const forged = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url');
  it.each([
    ['limit=0', '/limit'],
    ['limit=101', '/limit'],
    ['limit=abc', '/limit'],
    ['subject=7', '/subject'],
    ['subject=', '/subject'],
    ['type=order.created', '/type'],
    ['after=', '/after'],
    ['after=abc', '/after'],
    [`after=${forged('-1')}`, '/after'],
    [`after=${forged('1e3')}`, '/after'],
    [`after=${forged('1', '2')}`, '/after'],
    [`after=${forged('9'.repeat(19))}`, '/after'],
  ])('refuses %s with the place of the fault', async (query, pointer) => {
    const { status, body } = await service.as().get(`/v1/events?${query}`);

    expect([status, body.code]).toEqual([400, 'validation-failed']);
    expect(body.errors).toEqual([{ pointer, detail: expect.any(String) }]);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('refuses the cursor of another list', async () => {
    await createOrder(service);
    await createOrder(service);
    const { nextCursor } = (await service.as().get('/v1/orders?limit=1')).body;
    const { status, body } = await service.as().get(`/v1/events?after=${nextCursor}`);

    expect([status, body.errors?.[0].pointer]).toEqual([400, '/after']);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 2 });
  });
});
