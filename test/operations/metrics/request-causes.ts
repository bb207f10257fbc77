import { randomUUID } from 'node:crypto';
import { Reconciliation } from '../../../src/payments/reconciliation.js';
import { holdRows } from '../../payments/held-rows.js';
import { CARD } from '../../payments/paying.js';
import { newOrder } from '../../support/api-client.js';
import { waitFor } from '../../support/wait-for.js';
import { calls, type Cause, cause, CONSUMED, DELIVERED, RECONCILED, requests, series } from './cause.js';
import type { MeteredApp } from './metered-app.js';

const ORDER = newOrder({ externalRef: 'web-1' });
const create = ({ paying }: MeteredApp, body: unknown, key: string) => paying.as().post('/v1/orders', body, key);

/** A payment whose reply is lost, and how to ask for it again. */
export async function lostPayment({ paying }: MeteredApp): Promise<{ orderId: string; key: string }> {
  const sought = { orderId: await paying.order(), key: randomUUID() };
  await paying.sandbox.arm('payment_intents.create', 'drop-response');
  await paying.pay(sought.orderId, CARD, sought.key);
  return sought;
}

export const REQUEST_CAUSES: readonly Cause[] = [
  cause({
    cause: 'a request under a key is executed',
    happen: (app) => create(app, ORDER, 'k-1'),
    moves: { [requests('orders.create', 'executed')]: 1, ...CONSUMED },
  }),
  cause({
    cause: 'it is replayed',
    before: (app) => create(app, ORDER, 'k-1'),
    happen: (app) => create(app, ORDER, 'k-1'),
    moves: { [requests('orders.create', 'replayed')]: 1 },
  }),
  cause({
    cause: 'its key comes with another request',
    before: (app) => create(app, ORDER, 'k-1'),
    happen: (app) => create(app, newOrder(), 'k-1'),
    moves: { [requests('orders.create', 'mismatch')]: 1 },
  }),
  cause({
    cause: 'it is refused for good',
    before: (app) => create(app, ORDER, 'k-1'),
    happen: (app) => create(app, ORDER, 'k-2'),
    moves: { [requests('orders.create', 'refused')]: 1 },
  }),
  cause({
    cause: 'it fails without a trace',
    happen: ({ paying }) => paying.pay(randomUUID()),
    moves: { [requests('payments.create', 'released')]: 1 },
  }),
  cause({
    cause: 'it finds its key in use',
    before: ({ paying }) => paying.order(),
    happen: async ({ paying }, orderId) => {
      const key = randomUUID();
      const rows = await holdRows(paying.database, 'orders WHERE id = $1', [orderId]);
      const first = paying.pay(orderId, CARD, key);
      await rows.queued(1);
      await paying.pay(orderId, CARD, key);
      await rows.release();
      await first;
    },
    moves: {
      [requests('payments.create', 'in_use')]: 1,
      [requests('payments.create', 'executed')]: 1,
      [calls('stripe', 'charge', 'succeeded')]: 1,
      ...DELIVERED,
    },
  }),
  cause({
    cause: 'the outcome of a payment is not known',
    before: async ({ paying }) => {
      await paying.sandbox.arm('payment_intents.create', 'drop-response');
      return paying.order();
    },
    happen: ({ paying }, orderId) => paying.pay(orderId),
    moves: {
      [requests('payments.create', 'kept_open')]: 1,
      [calls('stripe', 'charge', 'unknown')]: 1,
      [series('orders_idempotency_keys', { state: 'in_progress' })]: 1,
      orders_payments_unknown: 1,
    },
  }),
  cause({
    cause: 'a payment of unknown outcome is asked for again',
    before: lostPayment,
    happen: ({ paying }, { orderId, key }) => paying.pay(orderId, CARD, key),
    moves: {
      [requests('payments.create', 'taken_over')]: 1,
      [calls('stripe', 'look_up', 'found')]: 1,
      [series('orders_idempotency_keys', { state: 'in_progress' })]: -1,
      orders_payments_unknown: -1,
      ...DELIVERED,
    },
  }),
  cause({
    cause: 'time passes over a payment of unknown outcome',
    before: lostPayment,
    happen: async (app) => {
      await app.sql(`UPDATE payments SET sent_at = sent_at - interval '2 hours'`);
      await app.sql(`UPDATE idempotency_keys SET created_at = created_at - interval '3 hours'
                     WHERE status = 'in_progress'`);
    },
    moves: { orders_payments_oldest_unknown_seconds: 2, orders_idempotency_oldest_unfinished_seconds: 3 },
  }),
  cause({
    cause: 'an owner loses its lease',
    before: ({ paying }) => paying.order(),
    happen: async (app, orderId) => {
      const { paying } = app;
      await paying.sandbox.arm('payment_intents.create', 'delay', { delayMs: 3_000 });
      const late = paying.pay(orderId);
      await waitFor(async () => (await paying.sandbox.effects()).length === 1, { description: 'the charge' });
      await app.sql(`UPDATE idempotency_keys SET lease_until = statement_timestamp() WHERE status = 'in_progress'`);
      await app.get(Reconciliation).run();
      await late;
    },
    moves: {
      [series('orders_idempotency_leases_lost_total', { endpoint: 'payments.create' })]: 1,
      [requests('payments.create', 'replayed')]: 1,
      [calls('stripe', 'charge', 'succeeded')]: 1,
      [calls('stripe', 'look_up', 'found')]: 1,
      ...RECONCILED,
      ...DELIVERED,
    },
  }),
];
