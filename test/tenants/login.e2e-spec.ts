import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { hashOf, TenantDirectory } from '../../src/tenants/tenant-directory.js';
import { ApiClient, type ApiResponse, newOrder } from '../support/api-client.js';
import { ACME, TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';

let service: TestApp;
let directory: TenantDirectory;
beforeAll(async () => {
  service = await TestApp.start();
  directory = service.app.get(TenantDirectory);
});
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const stranger = () => new ApiClient(service.baseUrl, undefined);
const withHeader = (authorization: string) =>
  stranger().get('/v1/orders', authorization === '' ? {} : { Authorization: authorization });

function expectUnauthenticated({ status, headers, body }: ApiResponse): void {
  expect([status, body?.code, headers['www-authenticate']]).toEqual([401, 'unauthenticated', 'Bearer']);
  expect(headers['content-type']).toMatch(/^application\/problem\+json/);
}

describe('a request under /v1', () => {
  it.each([
    ['without credentials', ''],
    ['without a key', 'Bearer'],
    ['with an empty key', 'Bearer '],
    ['with another scheme', `Basic ${Buffer.from('acme:sk_demo_acme').toString('base64')}`],
    ['with a key and no scheme', ACME.key],
    ['with a scheme that only begins like it', `Bearertoken ${ACME.key}`],
    ['with an unknown key', 'Bearer sk_demo_nobody'],
    ['with a key cut short', `Bearer ${ACME.key.slice(0, -1)}`],
    ['with something behind the key', `Bearer ${ACME.key} x`],
    ['with the key in capital letters', `Bearer ${ACME.key.toUpperCase()}`],
    ['with a key of 10,000 characters', `Bearer ${'k'.repeat(10_000)}`],
    ['with a key beyond ASCII', 'Bearer sk_\u00fc'],
    ['with two keys', `Bearer ${ACME.key}, Bearer ${ACME.key}`],
    ["with the key's hash", `Bearer ${hashOf(ACME.key).toString('hex')}`],
  ])('is refused %s', async (_what, authorization) => {
    expectUnauthenticated(await withHeader(authorization));
  });

  it.each([`bearer ${ACME.key}`, `BEARER ${ACME.key}`, `Bearer   ${ACME.key}`])(
    'is let in as its scheme is written: %s',
    async (authorization) => {
      expect((await withHeader(authorization)).status).toBe(200);
    },
  );

  it.each([
    ['GET', '/v1/orders'],
    ['POST', '/v1/orders'],
    ['GET', '/v1/orders/1'],
    ['PUT', '/v1/orders/1'],
    ['PATCH', '/v1/orders/1'],
    ['DELETE', '/v1/orders/1'],
    ['PUT', '/v1/orders/1/status'],
    ['PUT', '/v1/orders/by-external-ref/1'],
    ['GET', '/v1/events'],
    ['GET', '/v1/idempotency-keys/k-1'],
    ['HEAD', '/v1/orders'],
    ['GET', '/V1/Orders'],
    ['GET', '/v1/orders/'],
  ])('%s %s is refused to a stranger, and nothing happens', async (method, path) => {
    const { status, headers } = await stranger().send(method, path, { key: 'k-1' });

    expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it.each([
    ['malformed', '{"currency":', 'application/json'],
    ['over the limit', Buffer.alloc(300_000, ' '), 'application/json'],
    ['of another kind', 'hello', 'text/plain'],
  ])('is refused before its body is read: a body that is %s', async (_what, body, type) => {
    expectUnauthenticated(
      await stranger().send('POST', '/v1/orders', { body, key: 'k-1', headers: { 'Content-Type': type } }),
    );
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('is told 404 and 405 before anybody is asked who they are', async () => {
    const answers = [await stranger().get('/v1/nothing'), await stranger().delete('/v1/orders')];

    expect(answers.map(({ status, body }) => [status, body.code])).toEqual([
      [404, 'not-found'],
      [405, 'method-not-allowed'],
    ]);
  });
});

describe('what needs no login', () => {
  it.each(['/health/live', '/health/ready', '/docs', '/openapi.json', '/problems/unauthenticated'])(
    '%s',
    async (path) => {
      expect((await stranger().get(path)).status).toBe(200);
    },
  );
});

describe('a key that is revoked', () => {
  it('stops working within five seconds, for replays, too', async () => {
    const { key, keyId } = await directory.create('revoked');
    const client = service.as({ key });
    const sent = newOrder();
    expect((await client.post('/v1/orders', sent, 'k-1')).status).toBe(201);
    expect((await client.post('/v1/orders', sent, 'k-1')).headers['idempotent-replayed']).toBe('true');

    await service.database.query('UPDATE api_keys SET revoked_at = now() WHERE id = $1', [keyId]);
    await waitFor(async () => (await client.get('/v1/orders')).status === 401, {
      timeoutMs: 5_000,
      description: 'the key to be refused',
    });
    expectUnauthenticated(await client.post('/v1/orders', sent, 'k-1'));
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('is refused at once by a process that has not seen it before', async () => {
    const { key, keyId } = await directory.create('revoked before');
    await directory.revoke(keyId);

    expectUnauthenticated(await service.as({ key }).get('/v1/orders'));
  });

  it('leaves the other keys of its tenant, and what belongs to the tenant, as they are', async () => {
    const first = await directory.create('rotating');
    const order = (await service.as(first).post('/v1/orders', newOrder(), 'k-1')).body;
    const second = await directory.rotate('rotating');
    await directory.revoke(first.keyId);

    const replay = await service.as(second).post('/v1/orders', newOrder(), 'k-1');
    expect([replay.status, replay.headers['idempotent-replayed'], replay.body]).toEqual([201, 'true', order]);
    expect((await service.as(second).get('/v1/orders')).body.data).toEqual([order]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});

describe('a key that is new', () => {
  it('works at once, even where it was refused a moment before', async () => {
    const { tenantId } = await directory.create('early');
    const early = service.as({ key: 'sk_early' });
    expectUnauthenticated(await early.get('/v1/orders'));
    await service.database.query(
      `INSERT INTO api_keys (id, tenant_id, hash, hint) VALUES (gen_random_uuid(), $1, $2, 'sk_early')`,
      [tenantId, hashOf('sk_early')],
    );

    expect((await early.get('/v1/orders')).status).toBe(200);
  });
});
