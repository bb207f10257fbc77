import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import { ACME, GLOBEX, type TestApp } from '../support/test-app.js';

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

let service: TestApp;
let routes: TestRoutes;
beforeAll(async () => ({ service, routes } = await startWithTestRoutes()));
afterAll(() => service.stop());
beforeEach(async () => {
  routes.reset();
  await service.database.clear();
});

const statusOf = async (key: string, tenant = ACME as { readonly key: string }) => {
  const answer = await service.as(tenant).get(`/v1/idempotency-keys/${key}`);
  expect(answer.status).toBe(200);
  return answer.body.data as Record<string, unknown>[];
};

describe('M13: GET /v1/idempotency-keys/{key}', () => {
  it('tells what became of a key, and never what the answer said', async () => {
    const created = await service.as().post('/v1/orders', newOrder({ metadata: { note: 'MARKER' } }), 'k-1');
    const answer = await service.as().get('/v1/idempotency-keys/k-1');
    expect(answer.body).toEqual({
      data: [
        {
          endpoint: 'orders.create',
          status: 'completed',
          recoveryPoint: null,
          responseStatus: 201,
          createdAt: expect.stringMatching(RFC_3339),
          completedAt: expect.stringMatching(RFC_3339),
          expiresAt: created.headers['idempotency-expires'],
          leaseUntil: null,
        },
      ],
    });
    expect(answer.text).not.toContain('MARKER');
    expect(answer.text).not.toContain(created.body.id);
  });

  it('lists one record for each endpoint that the key was used at, oldest first', async () => {
    for (const path of ['/v1/test/other', '/v1/orders', '/v1/test/work']) {
      await service.as().post(path, path === '/v1/orders' ? newOrder() : {}, 'k-1');
    }
    const endpoints = (await statusOf('k-1')).map(({ endpoint }) => endpoint);
    expect(endpoints).toEqual(['test.other', 'orders.create', 'test.work']);
  });

  it('shows the status of a stored refusal, and nothing of a released one', async () => {
    await service.as().post('/v1/orders', newOrder({ surprise: 1 }), 'k-1');
    expect(await statusOf('k-1')).toMatchObject([{ status: 'completed', responseStatus: 400 }]);
    routes.work = () => Promise.reject(new Error('broken'));
    await service.as().post('/v1/test/work', {}, 'k-2');
    expect(await statusOf('k-2')).toEqual([]);
  });

  it('is empty for an unknown key, a malformed one, one past its retention, and one that is being executed', async () => {
    expect(await statusOf('never-seen')).toEqual([]);
    expect(await statusOf('x'.repeat(300))).toEqual([]);
    expect(await statusOf('cl%C3%A9')).toEqual([]);
    expect(await statusOf('%00')).toEqual([]);

    await service.as().post('/v1/orders', newOrder(), 'k-1');
    await service.database.query(`UPDATE idempotency_keys SET expires_at = statement_timestamp() - interval '1 ms'`);
    expect(await statusOf('k-1')).toEqual([]);

    const gate = new Gate();
    routes.work = () => gate.pass();
    const running = service.as().post('/v1/test/work', {}, 'k-2');
    await gate.reached;
    expect(await statusOf('k-2')).toEqual([]); // claim and outcome become visible by one COMMIT
    gate.open();
    await running;
    expect(await statusOf('k-2')).toHaveLength(1);
  });

  it('shows an unfinished operation with its lease and recovery point', async () => {
    await service.database.query(
      `INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, created_at,
                                     lease_until, recovery_point)
       VALUES ($1, 'k-1', 'payments.create', 'in_progress', '\\x00', 1, '2026-01-01T00:00:00Z', '2026-01-01T00:00:30Z', 'charge_sent')`,
      [ACME.tenantId],
    );
    expect(await statusOf('k-1')).toEqual([
      {
        endpoint: 'payments.create',
        status: 'in_progress',
        recoveryPoint: 'charge_sent',
        responseStatus: null,
        createdAt: '2026-01-01T00:00:00.000Z',
        completedAt: null,
        expiresAt: null,
        leaseUntil: '2026-01-01T00:00:30.000Z',
      },
    ]);
  });

  it('shows another tenant nothing', async () => {
    await service.as().post('/v1/orders', newOrder(), 'k-1');
    expect(await statusOf('k-1', GLOBEX)).toEqual([]);
    expect((await service.as({ key: 'sk_unknown' }).get('/v1/idempotency-keys/k-1')).status).toBe(401);
    await service.as(GLOBEX).post('/v1/orders', newOrder(), 'k-1');
    expect(await statusOf('k-1', GLOBEX)).toHaveLength(1);
    expect(await statusOf('k-1')).toHaveLength(1);
  });

  it.each(['a/b', 'a b', 'a%2Fb', 'a?b=c#d', '100%', 'a+b', "it's; fine", '*', ':id'])(
    'finds the key %p, percent-encoded',
    async (key) => {
      await service.as().post('/v1/orders', newOrder(), key);
      expect(await statusOf(encodeURIComponent(key))).toHaveLength(1);
      expect(await statusOf(encodeURIComponent(`"${key}"`))).toHaveLength(1);
    },
  );

  it('finds a key with quotes inside, in the form of a structured-field string', async () => {
    await service.as().post('/v1/orders', newOrder(), '"a\\"b"');
    expect(await statusOf(encodeURIComponent('"a\\"b"'))).toHaveLength(1);
  });
});

describe('M13: what is kept of a request is its hash', () => {
  it.each<[string, string, number]>([
    ['completed', '/v1/test/work', 201],
    ['refused', '/v1/orders', 400],
  ])('no part of its body, path, query or headers stands in the record (%s)', async (_, path, status) => {
    const marker = 'S3CR3T-4242-4242';
    const body = { ...newOrder({ clientContext: { card: marker } }), items: [{ sku: '', unitAmount: 1, quantity: 1 }] };
    const headers = { 'X-Card': marker, 'Idempotency-Key': 'k-1' };
    const answer = await service.as().send('POST', `${path}?card=${marker}`, { body, headers });
    expect(answer.status).toBe(status);
    expect(answer.text).not.toContain(marker);

    const [row] = await service.database.query<{ text: string; bytes: Buffer }>(
      'SELECT k::text AS text, fingerprint || response_body AS bytes FROM idempotency_keys k',
    );
    for (const form of [marker, encoded(marker, 'hex'), encoded(marker, 'base64').slice(0, -4)]) {
      expect(row!.text).not.toContain(form);
    }
    expect(row!.bytes.includes(marker)).toBe(false);
    expect(await service.database.count('idempotency_keys', 'octet_length(fingerprint) = 32')).toBe(1);
  });
});

function encoded(text: string, encoding: BufferEncoding): string {
  return Buffer.from(text).toString(encoding);
}
