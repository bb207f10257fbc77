import { randomUUID } from 'node:crypto';
import { Controller, Get, Post } from '@nestjs/common';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Idempotent } from '../../src/idempotency/idempotent.decorator.js';
import { ApiClient, type ApiResponse, newOrder } from '../support/api-client.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';

@Controller({ path: 'broken', version: '1' })
class BrokenController {
  @Get()
  read(): never {
    throw new Error('SECRET of the inside');
  }

  @Post()
  @Idempotent({ endpoint: 'broken.create' })
  create(): never {
    throw new TypeError('SECRET of the inside', { cause: new Error('SECRET cause') });
  }
}

let database: TestDatabase;
let proxy: PostgresProxy;
let service: TestApp;
/** What the service wrote into its log as an error. */
let errors: string[];
beforeAll(async () => {
  database = await TestDatabase.create();
  proxy = await PostgresProxy.start(database.url);
  service = await TestApp.start(
    { IDEMPOTENCY_WAIT: '100ms' },
    { database, databaseUrl: proxy.url, controllers: [BrokenController] },
  );
});
afterAll(async () => {
  await service.stop();
  await proxy.stop();
});
beforeEach(async () => {
  await database.clear();
  errors = [];
  const ignore = () => undefined;
  const error = (...parts: unknown[]) => void errors.push(JSON.stringify(parts));
  service.app.useLogger({ log: ignore, warn: ignore, error });
});

/** The key of the request that is refused. */
const KEY = 'k-refused';

const post = (body: unknown, headers: Record<string, string> = {}) =>
  service.as().post('/v1/orders', body, KEY, headers);
const patch = (id: string, headers: Record<string, string>) =>
  service.as().send('PATCH', `/v1/orders/${id}`, { key: KEY, headers, body: { metadata: { a: 'b' } } });
async function order(different: Record<string, unknown> = {}): Promise<string> {
  return (await service.as().post('/v1/orders', newOrder(different))).body.id as string;
}

interface Refusal {
  readonly code: string;
  readonly status: number;
  /** What remains of the key it was sent under. */
  readonly remembered: boolean;
  readonly headers?: Record<string, unknown>;
  readonly members?: Record<string, unknown>;
  readonly send: () => Promise<ApiResponse>;
}

const REFUSALS: Refusal[] = [
  { code: 'malformed-json', status: 400, remembered: false, send: () => post('{') },
  {
    ...{ code: 'idempotency-key-missing', status: 400, remembered: false },
    send: () => service.as().send('POST', '/v1/orders', { body: newOrder() }),
  },
  {
    ...{ code: 'idempotency-key-invalid', status: 400, remembered: false },
    send: () => service.as().post('/v1/orders', newOrder(), '"unbalanced'),
  },
  {
    ...{ code: 'validation-failed', status: 400, remembered: true },
    members: { errors: [{ pointer: '/total', detail: expect.any(String) }] },
    send: () => post(newOrder({ total: 1 })),
  },
  {
    ...{ code: 'unauthenticated', status: 401, remembered: false, headers: { 'www-authenticate': 'Bearer' } },
    send: () => new ApiClient(service.baseUrl, undefined).post('/v1/orders', newOrder(), KEY),
  },
  {
    ...{ code: 'not-found', status: 404, remembered: false },
    send: () => patch(randomUUID(), { 'If-Match': '"1"' }),
  },
  {
    ...{ code: 'method-not-allowed', status: 405, remembered: false, headers: { allow: 'GET, HEAD, POST' } },
    send: () => service.as().send('PATCH', '/v1/orders', { key: KEY, body: {} }),
  },
  {
    ...{ code: 'idempotency-key-in-use', status: 409, remembered: false, headers: { 'retry-after': '1' } },
    send: async () => {
      const first = await database.connect();
      await first.query('BEGIN');
      await first.query(
        `INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, created_at)
         VALUES ($1, $2, 'orders.create', 'in_progress', '', 1, now())`,
        [ACME.tenantId, KEY],
      );
      const answer = await post(newOrder());
      await first.end();
      return answer;
    },
  },
  {
    ...{ code: 'duplicate-external-ref', status: 409, remembered: true },
    members: { orderId: expect.any(String) },
    send: async () => {
      await order({ externalRef: 'web-1' });
      return post(newOrder({ externalRef: 'web-1' }));
    },
  },
  {
    ...{ code: 'order-not-editable', status: 409, remembered: true },
    members: { orderId: expect.any(String) },
    send: async () => {
      const id = await order();
      await service.as().put(`/v1/orders/${id}/status`, { status: 'cancelled' });
      return patch(id, { 'If-Match': '"2"' });
    },
  },
  {
    ...{ code: 'order-deleted', status: 410, remembered: false },
    send: async () => {
      const id = await order();
      await service.as().delete(`/v1/orders/${id}`);
      return service.as().send('PUT', `/v1/orders/${id}`, { key: KEY, body: newOrder() });
    },
  },
  {
    ...{ code: 'precondition-failed', status: 412, remembered: false, headers: { etag: '"1"' } },
    send: async () => patch(await order(), { 'If-Match': '"7"' }),
  },
  {
    ...{ code: 'precondition-required', status: 428, remembered: false },
    send: async () => patch(await order(), {}),
  },
  {
    ...{ code: 'payload-too-large', status: 413, remembered: false },
    send: () => post(Buffer.alloc(100_001, ' ')),
  },
  {
    ...{ code: 'unsupported-media-type', status: 415, remembered: false },
    send: () => post(newOrder(), { 'Content-Type': 'text/plain' }),
  },
  {
    ...{ code: 'idempotency-key-reused', status: 422, remembered: true },
    send: async () => {
      await post(newOrder());
      return post(newOrder({ currency: 'CHF' }));
    },
  },
  {
    ...{ code: 'service-unavailable', status: 503, remembered: false, headers: { 'retry-after': '1' } },
    send: async () => {
      await service.as().get('/v1/orders'); // the login is known from here on
      proxy.refuse();
      proxy.cutAll();
      return post(newOrder()).finally(() => proxy.accept());
    },
  },
  {
    ...{ code: 'outcome-unknown', status: 503, remembered: true, headers: { 'retry-after': '1' } },
    send: () => {
      void proxy.once(statement.isAnswered('COMMIT'), 'cut');
      return post(newOrder());
    },
  },
  {
    ...{ code: 'internal-error', status: 500, remembered: false },
    members: { errorId: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    send: () => service.as().post('/v1/broken', {}, KEY),
  },
];

describe('every refusal is a problem document (RFC 9457) whose type explains it', () => {
  it.each(REFUSALS)('$status $code', async ({ code, status, remembered, headers = {}, members = {}, send }) => {
    const answer = await send();

    expect([answer.status, answer.text]).toEqual([status, answer.text]);
    expect(answer.headers['content-type']).toMatch(/^application\/problem\+json(; charset=utf-8)?$/);
    expect(answer.headers).toMatchObject(headers);
    expect(answer.body).toEqual({
      type: `http://localhost:${new URL(service.baseUrl).port}/problems/${code}`,
      title: expect.stringMatching(/\w+ \w+/),
      status,
      detail: expect.stringMatching(/\w+ \w+/),
      instance: expect.stringMatching(/^\/v1\/(orders|broken)/),
      code,
      ...members,
    });
    expect(await database.count('idempotency_keys', 'key = $1', [KEY])).toBe(remembered ? 1 : 0);

    const page = await fetch(answer.body.type as string);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    const text = await page.text();
    for (const part of [code, String(status), 'What to do']) expect(text).toContain(part);
  });

  it('names the path of the request, without its query', async () => {
    const { body } = await service.as().get('/v1/orders?limit=0&after=x');

    expect(body.instance).toBe('/v1/orders');
  });

  it('is under PUBLIC_URL where there is one', async () => {
    const named = await TestApp.start({ PUBLIC_URL: 'https://shop.example/api' }, { database });
    const { body } = await named.as().get('/nowhere');
    await named.app.close();

    expect(body.type).toBe('https://shop.example/api/problems/not-found');
  });

  it('has no page of a name that there is not', async () => {
    const { status, body } = await service.as().get('/problems/toString');

    expect([status, body.code]).toEqual([404, 'not-found']);
  });
});

describe('what the service did not foresee', () => {
  it.each([
    ['GET', undefined],
    ['POST', 'k-1'],
  ])('is a 500 that says nothing of the inside; the log has it all, under the errorId: %s', async (method, key) => {
    const { status, body, text } = await service.as().send(method, '/v1/broken', { ...(key && { key }) });

    expect([status, body.code]).toEqual([500, 'internal-error']);
    expect(text).not.toMatch(/SECRET|TypeError|\.ts|node_modules/);
    const lines = errors.filter((line) => line.includes(body.errorId as string));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('SECRET of the inside');
    if (method === 'POST') expect(lines[0]).toContain('SECRET cause');
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('leaves the key free: the same request runs again (K9)', async () => {
    const first = await service.as().post('/v1/broken', {}, 'k-1');
    const second = await service.as().post('/v1/broken', {}, 'k-1');

    expect([first.status, second.status, second.headers['idempotent-replayed']]).toEqual([500, 500, undefined]);
    expect(second.body.errorId).not.toBe(first.body.errorId);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('a database that is away', () => {
  it('makes a login unavailable, not unauthenticated: nobody can say whose key it is', async () => {
    proxy.refuse();
    proxy.cutAll();
    const { status, body, headers } = await service
      .as(GLOBEX)
      .get('/v1/orders')
      .finally(() => proxy.accept());

    expect([status, body.code, headers['retry-after']]).toEqual([503, 'service-unavailable', '1']);
    expect((await service.as(GLOBEX).get('/v1/orders')).status).toBe(200);
  });
});

describe('an outcome that is unknown', () => {
  it('is found out by the same request again: one order, one event (K2)', async () => {
    const lost = proxy.once(statement.isAnswered('COMMIT'), 'cut');
    const first = await post(newOrder());
    await lost;
    const again = await post(newOrder());

    expect([first.status, first.body.code]).toEqual([503, 'outcome-unknown']);
    expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});
