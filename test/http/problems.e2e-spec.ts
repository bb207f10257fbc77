import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Controller, Get, Post } from '@nestjs/common';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { problemTypes } from '../../src/http/problem.js';
import { Idempotent } from '../../src/idempotency/idempotent.decorator.js';
import { ApiClient, type ApiRequest, type ApiResponse, newOrder } from '../support/api-client.js';
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
const UNBALANCED = '"unbalanced';

/** Sends the last request once more as it was. */
let sendAgain: () => Promise<ApiResponse>;
const sending = (send: () => Promise<ApiResponse>): Promise<ApiResponse> => {
  sendAgain = send;
  return send();
};
const send = (method: string, path: string, request: ApiRequest = {}, client = service.as()) =>
  sending(() => client.send(method, path, { key: KEY, ...request }));
const post = (body: unknown, headers: Record<string, string> = {}) => send('POST', '/v1/orders', { body, headers });
const patch = (id: string, headers: Record<string, string>) =>
  send('PATCH', `/v1/orders/${id}`, { headers, body: { metadata: { a: 'b' } } });
async function order(different: Record<string, unknown> = {}): Promise<string> {
  return (await service.as().post('/v1/orders', newOrder(different))).body.id as string;
}

interface Refusal {
  readonly code: string;
  readonly status: number;
  /** What remains of the key it was sent under. */
  readonly remembered: boolean;
  /** How the same request is answered after it: by default with the same, as a replay where the key remembers it. */
  readonly again?: readonly [status: number, marker: 'true' | undefined];
  readonly headers?: Record<string, unknown>;
  readonly members?: Record<string, unknown>;
  readonly send: () => Promise<ApiResponse>;
}

const REFUSALS: Refusal[] = [
  { code: 'malformed-json', status: 400, remembered: false, send: () => post('{') },
  {
    ...{ code: 'idempotency-key-missing', status: 400, remembered: false },
    send: () => send('POST', '/v1/orders', { body: newOrder(), key: undefined }),
  },
  {
    ...{ code: 'idempotency-key-invalid', status: 400, remembered: false },
    send: () => send('POST', '/v1/orders', { body: newOrder(), key: UNBALANCED }),
  },
  {
    ...{ code: 'validation-failed', status: 400, remembered: true },
    members: { errors: [{ pointer: '/total', detail: expect.any(String) }] },
    send: () => post(newOrder({ total: 1 })),
  },
  {
    ...{ code: 'unauthenticated', status: 401, remembered: false, headers: { 'www-authenticate': 'Bearer' } },
    send: () => send('POST', '/v1/orders', { body: newOrder() }, new ApiClient(service.baseUrl, undefined)),
  },
  {
    ...{ code: 'not-found', status: 404, remembered: false },
    send: () => patch(randomUUID(), { 'If-Match': '"1"' }),
  },
  {
    ...{ code: 'method-not-allowed', status: 405, remembered: false, headers: { allow: 'GET, HEAD, POST' } },
    send: () => send('PATCH', '/v1/orders', { body: {} }),
  },
  {
    ...{ code: 'idempotency-key-in-use', status: 409, remembered: false, headers: { 'retry-after': '1' } },
    again: [201, undefined],
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
      return send('PUT', `/v1/orders/${id}`, { body: newOrder() });
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
    again: [422, undefined],
    send: async () => {
      await post(newOrder());
      return post(newOrder({ currency: 'CHF' }));
    },
  },
  {
    ...{ code: 'service-unavailable', status: 503, remembered: false, headers: { 'retry-after': '1' } },
    again: [201, undefined],
    send: async () => {
      await service.as().get('/v1/orders'); // the login is known from here on
      proxy.refuse();
      proxy.cutAll();
      return post(newOrder()).finally(() => proxy.accept());
    },
  },
  {
    ...{ code: 'outcome-unknown', status: 503, remembered: true, headers: { 'retry-after': '1' } },
    again: [201, 'true'],
    send: () => {
      void proxy.once(statement.isAnswered('COMMIT'), 'cut');
      return post(newOrder());
    },
  },
  {
    ...{ code: 'internal-error', status: 500, remembered: false },
    members: { errorId: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    send: () => send('POST', '/v1/broken', { body: {} }),
  },
];

/** The specs that reach the kinds which are not in the table above: they need a service or a socket of their own. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'rate-limited': 'test/http/refused-early.e2e-spec.ts',
  'malformed-request': 'test/operations/edges.e2e-spec.ts',
  'request-timeout': 'test/operations/edges.e2e-spec.ts',
  'request-header-fields-too-large': 'test/operations/edges.e2e-spec.ts',
  'expectation-failed': 'test/operations/edges.e2e-spec.ts',
  'payment-declined': 'test/payments/problems.e2e-spec.ts',
  'payment-failed': 'test/payments/problems.e2e-spec.ts',
  'payment-in-progress': 'test/payments/problems.e2e-spec.ts',
  'payment-outcome-unknown': 'test/payments/problems.e2e-spec.ts',
  'order-already-paid': 'test/payments/problems.e2e-spec.ts',
  'order-not-payable': 'test/payments/problems.e2e-spec.ts',
  'refund-exceeds-payment': 'test/payments/problems.e2e-spec.ts',
  'sequence-gap': 'test/feeds/epochs.e2e-spec.ts',
  'epoch-fenced': 'test/feeds/epochs.e2e-spec.ts',
  'sequence-reused': 'test/feeds/epochs.e2e-spec.ts',
  'bad-signature': 'test/payments/webhooks.e2e-spec.ts',
  'cursor-expired': 'test/messaging/event-retention.e2e-spec.ts',
};

describe('every kind of refusal that the code declares', () => {
  const declared = problemTypes();

  it('is in the table here, or in the spec that is named for it', async () => {
    const inTable = REFUSALS.map(({ code }) => code);
    expect([...inTable, ...Object.keys(ELSEWHERE)].sort()).toEqual(declared.map(({ code }) => code).sort());
    for (const [code, spec] of Object.entries(ELSEWHERE)) {
      expect(await readFile(new URL(`../../${spec}`, import.meta.url), 'utf8')).toContain(`'${code}'`);
    }
  });

  it('is remembered by a key where it says so', () => {
    const inTable = declared.filter(({ code }) => !(code in ELSEWHERE));
    const stored = inTable.filter(({ underKey }) => underKey === 'stored').map(({ code }) => code);
    const replayed = REFUSALS.filter(({ remembered, again }) => remembered && !again).map(({ code }) => code);
    expect(replayed.sort()).toEqual(stored.sort());
  });
});

describe('every refusal is a problem document (RFC 9457) whose type explains it', () => {
  it.each(REFUSALS)('$status $code', async (refusal) => {
    const { code, status, remembered, headers = {}, members = {} } = refusal;
    const answer = await refusal.send();

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
    expect(answer.headers['idempotent-replayed']).toBeUndefined();
    expect(await database.count('idempotency_keys', 'key IN ($1, $2)', [KEY, UNBALANCED])).toBe(remembered ? 1 : 0);
    const before = await database.counts();

    const { again = [status, remembered ? 'true' : undefined] } = refusal;
    const second = await sendAgain();
    expect([second.status, second.headers['idempotent-replayed']]).toEqual(again);
    if (remembered && !refusal.again) {
      expect(second.bytes).toEqual(answer.bytes);
      expect(second.headers['idempotency-expires']).toBe(answer.headers['idempotency-expires']);
      expect(Date.parse(answer.headers['idempotency-expires']!)).toBeGreaterThan(Date.now());
    }
    if (second.status >= 400) expect(await database.counts()).toEqual(before);

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
