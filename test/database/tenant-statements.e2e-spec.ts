import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import Stripe from 'stripe';
import { NotificationRetention } from '../../src/notifications/notification-retention.js';
import { Reconciliation } from '../../src/payments/reconciliation.js';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.js';
import { MailServer } from '../notifications/mail-server.js';
import { reached as haveReached } from '../notifications/paid-events.js';
import { newOrder } from '../support/api-client.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { ACME, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';

type Step = [status: number, method: string, path: string, body?: unknown, headers?: Record<string, string>];

const CARD = { method: 'card', paymentMethod: 'pm_card_visa' };
const TRANSFER = { method: 'bank_transfer', account: 'DE89370400440532013000' };
/** An event of Stripe's about nothing of ours; what its facts do is walked through by the requests. */
const STRIPE_EVENT = JSON.stringify({
  ...{ id: 'evt_1', object: 'event', type: 'payment_intent.processing' },
  data: {
    object: {
      ...{ id: 'pi_1', object: 'payment_intent', amount: 900, currency: 'eur', status: 'processing', created: 1 },
      metadata: { tenant: ACME.tenantId, payment: randomUUID() },
    },
  },
});
const STRIPE_SIGNATURE = new Stripe('sk_test_any').webhooks.generateTestHeaderString({
  payload: STRIPE_EVENT,
  secret: 'whsec_sandbox',
});

const id = randomUUID();
const order = `/v1/orders/${id}`;
const paidOrder = `/v1/orders/${randomUUID()}`;
const byRef = '/v1/orders/by-external-ref/web';
const other = newOrder({ metadata: { a: 'b' } });

/** A batch of a feed that has the numbers from `first` on. */
function batchOf(first: number, count: number): Record<string, unknown> {
  const records = Array.from({ length: count }, (_, index) => newOrder({ externalRef: `till-${first + index}` }));
  return { epoch: 1, firstSequence: first, records };
}

/** A request to each route, and to each branch of it that sends statements of its own. A new route belongs in here. */
const WALK: Step[] = [
  [201, 'POST', '/v1/orders', newOrder({ externalRef: 'web-1' }), { 'Idempotency-Key': 'k-1' }],
  [201, 'POST', '/v1/orders', newOrder({ externalRef: 'web-1' }), { 'Idempotency-Key': 'k-1' }],
  [422, 'POST', '/v1/orders', newOrder(), { 'Idempotency-Key': 'k-1' }],
  [409, 'POST', '/v1/orders', newOrder({ externalRef: 'web-1' }), { 'Idempotency-Key': 'k-2' }],
  [400, 'POST', '/v1/orders', {}, { 'Idempotency-Key': 'k-3' }],
  [200, 'GET', '/v1/idempotency-keys/k-1'],
  [200, 'GET', '/v1/orders?status=pending&externalRef=web-1&limit=1'],
  [201, 'PUT', `${byRef}-2`, newOrder()],
  [200, 'PUT', `${byRef}-2`, newOrder()],
  [200, 'PUT', `${byRef}-2`, other],
  [200, 'PUT', `${byRef}-2`, newOrder(), { 'If-Match': '"2"' }],
  [412, 'PUT', `${byRef}-2`, other, { 'If-None-Match': '*' }],
  [201, 'PUT', `${byRef}-3`, other, { 'If-None-Match': '*' }],
  [201, 'PUT', order, newOrder()],
  [200, 'PUT', order, newOrder()],
  [409, 'PUT', order, newOrder({ externalRef: 'web-1' }), { 'If-Match': '"1"' }],
  [200, 'PUT', order, newOrder({ externalRef: 'web-4' }), { 'If-Match': '"1"' }],
  [200, 'GET', order],
  [200, 'PATCH', order, { metadata: { c: 'd' } }, { 'If-Match': '"2"' }],
  [200, 'PATCH', order, { metadata: { e: 'f' } }, { 'If-Match': '"3"', 'Idempotency-Key': 'k-4' }],
  [200, 'PUT', `${order}/status`, { status: 'cancelled' }],
  [204, 'DELETE', order],
  [410, 'PUT', order, newOrder()],
  [201, 'PUT', paidOrder, newOrder()],
  [
    402,
    'POST',
    `${paidOrder}/payments`,
    { ...CARD, paymentMethod: 'pm_card_visa_chargeDeclined' },
    { 'Idempotency-Key': 'p-1' },
  ],
  [201, 'POST', `${paidOrder}/payments`, { ...CARD, receiptEmail: 'a@b.example' }, { 'Idempotency-Key': 'p-2' }],
  [201, 'POST', `${paidOrder}/payments`, { ...CARD, receiptEmail: 'a@b.example' }, { 'Idempotency-Key': 'p-2' }],
  [409, 'POST', `${paidOrder}/payments`, TRANSFER, { 'Idempotency-Key': 'p-3' }],
  [404, 'POST', `/v1/orders/${randomUUID()}/payments`, CARD, { 'Idempotency-Key': 'p-4' }],
  [200, 'GET', `${paidOrder}/payments`],
  [200, 'GET', '/v1/payments/{payment}'],
  [201, 'POST', '/v1/payments/{payment}/refunds', { amount: 1, reference: 'r-1' }, { 'Idempotency-Key': 'r-1' }],
  [409, 'POST', '/v1/payments/{payment}/refunds', { amount: 1, reference: 'r-1' }, { 'Idempotency-Key': 'r-2' }],
  [422, 'POST', '/v1/payments/{payment}/refunds', { amount: 1000 }, { 'Idempotency-Key': 'r-3' }],
  [200, 'GET', '/v1/payments/{payment}/refunds'],
  [404, 'GET', `/v1/refunds/${randomUUID()}`],
  [204, 'POST', '/v1/webhooks/stripe', STRIPE_EVENT, { 'Stripe-Signature': STRIPE_SIGNATURE }],
  [409, 'POST', '/v1/feeds/till/records', batchOf(1, 1)],
  [201, 'POST', '/v1/feeds/till/epochs'],
  ...[1, 2, 3, 4, 5, 6].map((n): Step => [200, 'POST', '/v1/feeds/till/records', batchOf(n, 1)]),
  [200, 'POST', '/v1/feeds/till/records', batchOf(1, 7)],
  [422, 'POST', '/v1/feeds/till/records', { ...batchOf(9, 1), firstSequence: 1 }],
  [200, 'GET', '/v1/feeds/till'],
  [200, 'GET', '/v1/events'],
  [200, 'GET', `/v1/events?subject=${id}`],
];

let database: TestDatabase;
let proxy: PostgresProxy;
let service: TestApp;
let sandbox: Sandbox;
let providerDatabase: TestDatabase;
let mails: MailServer;
let touchesTenantTable: RegExp;
beforeAll(async () => {
  database = await TestDatabase.create();
  proxy = await PostgresProxy.start(database.url);
  providerDatabase = await TestDatabase.create();
  sandbox = await startSandbox({ databaseUrl: providerDatabase.url, port: 0 });
  mails = await MailServer.start(); // so that events have a consumer, and the relay and the sender something to do
  service = await TestApp.start({ SMTP_URL: mails.url }, { database, databaseUrl: proxy.url, sandboxUrl: sandbox.url });
  const tables = await database.query<{ name: string }>(
    `SELECT tablename AS name FROM pg_tables
     WHERE schemaname = 'public' AND tablename NOT IN ('tenants', 'api_keys', 'migrations')`,
  );
  const names = tables.map(({ name }) => name).join('|');
  touchesTenantTable = new RegExp(`\\b(FROM|INTO|UPDATE|JOIN|TABLE)\\s+("?public"?\\.)?"?(${names})\\b`, 'i');
});
afterAll(async () => {
  await service.stop();
  await proxy.stop();
  await sandbox.stop();
  await providerDatabase.drop();
  await mails.stop();
});

/**
 * The one question that belongs to no tenant: which of them have work for a job. `AcrossTenants` asks it, and where very
 * many rows would answer it goes from one tenant to the next in the index.
 */
const WHOSE_WORK = /^\s*(SELECT DISTINCT tenant_id FROM \w+\s+WHERE |WITH RECURSIVE tenants AS \()/;

/** Whether a statement says by a parameter whose rows it means: mentioning the column among those read is not enough. */
function namesItsTenant(sql: string): boolean {
  const [verb] = /^\s*\w+/.exec(sql) ?? [''];
  return verb.trim().toUpperCase() === 'INSERT'
    ? /^\s*INSERT INTO [\w".]+( AS \w+)?\s*\(\s*"?tenant_id"?[\s\S]*?(VALUES \(|SELECT )\$1/i.test(sql)
    : /\btenant_id"? = \$\d/i.test(sql);
}

interface Layer {
  readonly route?: { readonly path: string; readonly methods: Record<string, boolean> };
  match(path: string): boolean;
}

/** The routes under `/v1`, such as `PATCH /v1/orders/:id`, and those of them that a request reaches. */
function routes(reachedBy?: [method: string, path: string]): string[] {
  const { stack } = service.app.getHttpAdapter().getInstance().router as unknown as { stack: Layer[] };
  const [method, path] = reachedBy ?? [];
  const found = stack.flatMap((layer) => {
    if (!layer.route?.path.startsWith('/v1')) return [];
    if (path !== undefined && !layer.match(path.split('?')[0]!)) return [];
    return Object.keys(layer.route.methods).map((name) => `${name.toUpperCase()} ${layer.route!.path}`);
  });
  return method === undefined ? found : found.filter((route) => route.startsWith(`${method} `)).slice(0, 1);
}

describe('every statement on a table of tenant data (B8)', () => {
  it('names the tenant, on a walk through all routes', async () => {
    const reached = new Set(WALK.flatMap(([, method, path]) => routes([method, path])));
    expect([...reached].sort()).toEqual(routes().sort());

    const recording = proxy.record();
    let payment = '';
    for (const [status, method, template, body, headers = {}] of WALK) {
      const path = template.replace('{payment}', payment);
      const answer = await service.as().send(method, path, { body, headers });
      expect([method, path, answer.status, answer.text]).toEqual([method, path, status, answer.text]);
      if (answer.headers.location?.startsWith('/v1/payments/')) payment = answer.body.id as string;
    }
    await service.app.get(Reconciliation).run();
    await haveReached(database, 'sent', 1);
    await database.query(`UPDATE notifications SET ended_at = ended_at - interval '1 year'`);
    expect(await service.app.get(NotificationRetention).run()).toBe(1);
    recording.stop();

    const statements = recording.statements.map(({ sql }) => sql).filter((sql) => touchesTenantTable.test(sql));
    expect(statements.filter((sql) => !namesItsTenant(sql) && !WHOSE_WORK.test(sql))).toEqual([]);
    for (const part of [
      'INTO orders',
      'UPDATE orders',
      '"orders"',
      'INTO outbox',
      'UPDATE outbox',
      'INTO idempotency_keys',
      'INTO payments',
      'UPDATE refunds',
      'INTO money_movements',
      'INTO processed_messages',
      'INTO feeds',
      'UPDATE feeds',
      'INTO feed_batches',
      'DELETE FROM feed_batches',
      'INTO notifications',
      'UPDATE notifications',
      'DELETE FROM notifications',
    ]) {
      expect([part, statements.some((sql) => sql.includes(part))]).toEqual([part, true]);
    }
    expect(statements.length).toBeGreaterThan(WALK.length);
  });

  it.each([
    'SELECT tenant_id FROM orders WHERE id = $1',
    'SELECT * FROM "orders" "Order" WHERE "Order"."id" = $1',
    'UPDATE outbox SET position = 1 WHERE id = $1 RETURNING tenant_id',
    'DELETE FROM public.idempotency_keys',
    'INSERT INTO outbox (id) VALUES ($1)',
    'WITH old AS (SELECT 1 FROM outbox_heads) SELECT * FROM old',
  ])('would be caught: %s', (sql) => {
    expect([touchesTenantTable.test(sql), namesItsTenant(sql)]).toEqual([true, false]);
  });
});
