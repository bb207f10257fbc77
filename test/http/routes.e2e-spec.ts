import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ApiClient, newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const id = randomUUID();
const stranger = () => new ApiClient(service.baseUrl, undefined);

describe('an address that no route serves', () => {
  it.each(['/', '/v1', '/v2/orders', '/orders', '/v1/orders/a/b/c', '/favicon.ico', '/problems', '/v1//orders'])(
    'is 404 to everybody: %s',
    async (path) => {
      for (const client of [service.as(), stranger()]) {
        for (const method of ['GET', 'POST', 'DELETE']) {
          const { status, body, headers } = await client.send(method, path, {
            body: method === 'POST' ? {} : undefined,
          });
          expect([method, status, body.code]).toEqual([method, 404, 'not-found']);
          expect(headers['content-type']).toMatch(/^application\/problem\+json/);
        }
      }
    },
  );

  it.each([
    ['GET', '/v1/orders/%'],
    ['GET', '/v1/orders/%zz'],
    ['DELETE', '/v1/orders/%E0%A4%A'],
    ['PUT', '/v1/orders/by-external-ref/%ff'],
    ['PUT', '/v1/orders/by-external-ref/%ED%A0%80'],
    ['GET', '/v1/idempotency-keys/%c3'],
    ['GET', '/problems/%'],
    ['GET', '/%'],
  ])('is one with invalid percent-encoding: %s %s', async (method, path) => {
    const { status, body } = await service.as().send(method, path, { body: method === 'PUT' ? newOrder() : undefined });

    expect([status, body.code]).toEqual([404, 'not-found']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('a method that a route does not have', () => {
  it.each([
    ['DELETE', '/v1/orders', 'GET, HEAD, POST'],
    ['PUT', '/v1/orders', 'GET, HEAD, POST'],
    ['POST', `/v1/orders/${id}`, 'DELETE, GET, HEAD, PATCH, PUT'],
    ['GET', `/v1/orders/${id}/status`, 'PUT'],
    ['GET', '/v1/orders/by-external-ref/web-1', 'PUT'],
    ['POST', '/v1/events', 'GET, HEAD'],
    ['DELETE', '/v1/idempotency-keys/k-1', 'GET, HEAD'],
    ['POST', '/health/live', 'GET, HEAD'],
    ['OPTIONS', '/v1/orders', 'GET, HEAD, POST'],
  ])('is 405 with the methods it has: %s %s', async (method, path, allow) => {
    for (const client of [service.as(), stranger()]) {
      const { status, body, headers } = await client.send(method, path);
      expect([status, body.code, headers.allow]).toEqual([405, 'method-not-allowed', allow]);
    }
  });
});

describe('HEAD', () => {
  it('is GET without the body', async () => {
    const created = await service.as().post('/v1/orders', newOrder());
    const path = created.headers.location!;
    const [got, head] = [await service.as().get(path), await service.as().send('HEAD', path)];

    expect([head.status, head.text, head.headers.etag]).toEqual([200, '', '"1"']);
    expect(head.headers['content-type']).toBe(got.headers['content-type']);
    expect((await service.as().send('HEAD', path, { headers: { 'If-None-Match': '"1"' } })).status).toBe(304);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each(['/nowhere', `/v1/orders/${id}`])('tells of a problem by status and media type: %s', async (path) => {
    const { status, headers, text } = await service.as().send('HEAD', path);

    expect([status, text]).toEqual([404, '']);
    expect(headers['content-type']).toMatch(/^application\/problem\+json/);
  });
});

describe('an answer', () => {
  it('says nothing of what serves it, and has no tag but versions', async () => {
    for (const path of ['/v1/orders', '/health/live', '/nowhere', '/problems/not-found']) {
      const { headers } = await service.as().get(path);
      expect([path, headers['x-powered-by'], headers.server, headers.etag]).toEqual([
        path,
        undefined,
        undefined,
        undefined,
      ]);
    }
  });
});
