import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { GLOBEX, TestApp } from '../support/test-app.js';
import { createOrder } from './order-effects.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

describe('GET /v1/orders/{id}', () => {
  it('shows the order with its version as a strong ETag', async () => {
    const order = await createOrder(service);
    const read = await service.as().get(`/v1/orders/${order.id}`);

    expect(read.status).toBe(200);
    expect(read.headers.etag).toBe('"1"');
    expect(read.headers['content-type']).toMatch(/^application\/json/);
    expect(read.body).toEqual(order);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each(['"1"', 'W/"1"', '"7", "1"', '*'])(
    'answers 304 without a body to whoever has it: If-None-Match %s',
    async (tags) => {
      const { id } = await createOrder(service);
      const read = await service.as().get(`/v1/orders/${id}`, { 'If-None-Match': tags });

      expect([read.status, read.headers.etag, read.text]).toEqual([304, '"1"', '']);
      expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
    },
  );

  it.each(['"0"', '"11"', '1'])('answers 200 to whoever has another version: If-None-Match %s', async (tags) => {
    const { id } = await createOrder(service);
    const read = await service.as().get(`/v1/orders/${id}`, { 'If-None-Match': tags });

    expect([read.status, read.headers.etag, read.body.id]).toEqual([200, '"1"', id]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('finds the order by its id in capital letters, too', async () => {
    const { id } = await createOrder(service);

    expect((await service.as().get(`/v1/orders/${id.toUpperCase()}`)).body.id).toBe(id);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('takes no part in idempotency: a key is ignored', async () => {
    const { id } = await createOrder(service);
    const read = await service.as().send('GET', `/v1/orders/${id}`, { key: 'k-1' });

    expect(read.status).toBe(200);
    expect(read.headers['idempotency-expires']).toBeUndefined();
    expect(await service.database.count('idempotency_keys', `key = 'k-1'`)).toBe(0);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});

describe('what is not there is 404 on every route', () => {
  const routes: [string, string, unknown][] = [
    ['GET', '', undefined],
    ['PATCH', '', { metadata: {} }],
    ['PUT', '/status', { status: 'cancelled' }],
    ['DELETE', '', undefined],
  ];

  it.each(routes)('%s {id}%s: an id that was never given', async (method, path, body) => {
    const answer = await service.as().send(method, `/v1/orders/${randomUUID()}${path}`, { body });

    expect([answer.status, answer.body.code]).toEqual([404, 'not-found']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it.each(routes)('%s {id}%s: an id that is none', async (method, path, body) => {
    const { id } = await createOrder(service);
    for (const malformed of ['1', 'null', `${id}0`, `{${id}}`, id.replaceAll('-', ''), `${id.slice(0, -1)}g`, '%00']) {
      const answer = await service.as().send(method, `/v1/orders/${malformed}${path}`, { body });
      expect([malformed, answer.status, answer.body.code]).toEqual([malformed, 404, 'not-found']);
    }
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each(routes)("%s {id}%s: another tenant's order, which stays as it is", async (method, path, body) => {
    const order = await createOrder(service);
    const answer = await service.as(GLOBEX).send(method, `/v1/orders/${order.id}${path}`, {
      body,
      headers: { 'If-Match': '"1"' },
    });

    expect([answer.status, answer.body.code]).toEqual([404, 'not-found']);
    expect((await service.as().get(`/v1/orders/${order.id}`)).body).toEqual(order);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each(routes)('%s {id}%s: a deleted order', async (method, path, body) => {
    const { id } = await createOrder(service);
    await service.as().delete(`/v1/orders/${id}`);
    const answer = await service.as().send(method, `/v1/orders/${id}${path}`, { body, headers: { 'If-Match': '"2"' } });

    expect([answer.status, answer.body.code]).toEqual([404, 'not-found']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('PATCH under a key: the refusal may pass, so the key is free again', async () => {
    const path = `/v1/orders/${randomUUID()}`;
    const answer = await service.as().send('PATCH', path, { body: {}, key: 'k-1', headers: { 'If-Match': '"1"' } });

    expect(answer.status).toBe(404);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});
