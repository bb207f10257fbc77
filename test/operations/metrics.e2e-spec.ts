import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { KeyCleanup } from '../../src/idempotency/key-cleanup.js';
import { Consumes } from '../../src/messaging/consumes.decorator.js';
import { Reconciliation } from '../../src/payments/reconciliation.js';
import { CARD, PayingApp } from '../payments/paying.js';
import { newOrder } from '../support/api-client.js';
import { waitFor } from '../support/wait-for.js';

let refuse = false;

@Injectable()
class Consumer {
  @Consumes('order.created', { consumer: 'test.metrics' })
  async onCreated(): Promise<void> {
    if (refuse) throw new Error('refused by the test');
  }
}

let app: PayingApp;
beforeAll(
  async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '500ms' }, { providers: [Consumer], messaging: {} })),
);
afterAll(() => app.stop());
beforeEach(async () => {
  refuse = false;
  await app.clear();
});

type Figures = Record<string, number>;

/** Every sample by its name and labels, as Prometheus would read it. */
async function scrape(): Promise<Figures> {
  const { status, headers, text } = await app.as().get('/metrics');
  expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
  const samples = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(
    samples.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

/** What of our own has changed by the work, and by how much. */
async function changes(work: () => Promise<unknown>): Promise<Figures> {
  const before = await scrape();
  await work();
  const after = await scrape();
  const counters = Object.entries(after).filter(([name]) => /^orders_\w+_(total|count)/.test(name));
  return Object.fromEntries(
    counters.map(([name, value]) => [name, value - (before[name] ?? 0)] as const).filter(([, change]) => change !== 0),
  );
}

const requests = (endpoint: string, outcome: string) =>
  `orders_idempotency_requests_total{endpoint="${endpoint}",outcome="${outcome}"}`;
const calls = (operation: string, outcome: string) =>
  `orders_provider_call_seconds_count{provider="stripe",operation="${operation}",outcome="${outcome}"}`;
const gauge = async (name: string) => (await scrape())[name];
const published = () =>
  waitFor(async () => (await app.database.count('outbox', `type = 'order.created' AND published_at IS NULL`)) === 0);

describe('the metrics', () => {
  it('count a request under a key by what became of it, and nothing else', async () => {
    const body = newOrder({ externalRef: 'web-1' });
    const delivery = { 'orders_event_deliveries_total{outcome="published"}': 1 };
    const message = { 'orders_messages_total{consumer="test.metrics",outcome="applied"}': 1 };
    const create = (content: unknown, key: string) => app.as().post('/v1/orders', content, key);
    const executed = await changes(async () => {
      await create(body, 'k-1');
      await published();
    });
    expect(executed).toEqual({ [requests('orders.create', 'executed')]: 1, ...delivery, ...message });
    expect(await changes(() => create(body, 'k-1'))).toEqual({ [requests('orders.create', 'replayed')]: 1 });
    expect(await changes(() => create(newOrder(), 'k-1'))).toEqual({ [requests('orders.create', 'mismatch')]: 1 });
    expect(await changes(() => create(body, 'k-2'))).toEqual({ [requests('orders.create', 'refused')]: 1 });
    expect(await changes(() => app.pay(randomUUID()))).toEqual({ [requests('payments.create', 'released')]: 1 });
    expect(await changes(() => app.as().get('/v1/orders'))).toEqual({});
  });

  it('count calls to a provider, an outcome that is unknown, and the takeover that finds it', async () => {
    const orderId = await app.order();
    const key = randomUUID();
    await published();
    await app.sandbox.arm('payment_intents.create', 'drop-response');
    expect(await changes(() => app.pay(orderId, CARD, key))).toEqual({
      [requests('payments.create', 'kept_open')]: 1,
      [calls('charge', 'unknown')]: 1,
    });
    await waitFor(async () => (await gauge('orders_payments_unknown')) === 1);
    expect(await gauge('orders_idempotency_keys{state="in_progress"}')).toBe(1);

    expect(await changes(() => app.pay(orderId, CARD, key))).toEqual({
      [requests('payments.create', 'taken_over')]: 1,
      [calls('look_up', 'found')]: 1,
    });
    await waitFor(async () => (await gauge('orders_payments_unknown')) === 0);
  });

  it('count a charge that was made twice', async () => {
    const { id } = await app.paid();
    await published();
    const [row] = await app.database.query<{ tenant_id: string }>('SELECT tenant_id FROM payments');
    const body = new URLSearchParams({
      ...{ amount: '900', currency: 'eur', payment_method: 'pm_card_visa', confirm: 'true' },
      ...{ 'metadata[tenant]': row!.tenant_id, 'metadata[payment]': id },
      ...{ 'automatic_payment_methods[enabled]': 'true', 'automatic_payment_methods[allow_redirects]': 'never' },
    });
    const headers = { Authorization: 'Bearer sk_test_any' };
    expect((await fetch(`${app.sandbox.url}/v1/payment_intents`, { method: 'POST', headers, body })).status).toBe(200);

    const found = await changes(() => app.service.app.get(Reconciliation).run());
    expect(found['orders_duplicate_effects_total{provider="stripe"}']).toBe(1);
  });

  it('show an event that is refused, and how long it has waited', async () => {
    refuse = true;
    const refused = await changes(async () => {
      await app.order();
      await waitFor(async () => (await app.database.count('outbox', 'available_at IS NOT NULL')) === 1);
    });
    expect(refused).toMatchObject({
      'orders_event_deliveries_total{outcome="refused"}': 1,
      'orders_messages_total{consumer="test.metrics",outcome="failed"}': 1,
    });
    await app.database.query(`UPDATE outbox SET created_at = created_at - interval '1 hour'`);
    await waitFor(async () => ((await gauge('orders_outbox_oldest_seconds')) ?? 0) >= 3_600);
    expect(await gauge('orders_outbox_pending')).toBe(1);
  });

  it('show keys that have expired and are still there, until the cleanup has come by', async () => {
    await app.order();
    await app.database.query(`UPDATE idempotency_keys SET expires_at = expires_at - interval '25 hours'`);
    await waitFor(async () => ((await gauge('orders_idempotency_expiry_lag_seconds')) ?? 0) > 3_000);
    await app.service.app.get(KeyCleanup).run();
    await waitFor(async () => (await gauge('orders_idempotency_expiry_lag_seconds')) === 0);
  });

  it('show the pool and the event loop', async () => {
    const figures = await scrape();
    expect(figures['orders_database_connections{state="idle"}']).toBeGreaterThan(0);
    expect(figures['orders_database_connections{state="waiting"}']).toBe(0);
    expect(figures.nodejs_eventloop_lag_p99_seconds).toBeGreaterThan(0);
  });
});
