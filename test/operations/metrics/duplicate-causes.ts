import { randomUUID } from 'node:crypto';
import { KeyCleanup } from '../../../src/idempotency/key-cleanup.js';
import { Reconciliation } from '../../../src/payments/reconciliation.js';
import { CARD, TRANSFER } from '../../payments/paying.js';
import { ACME } from '../../support/test-app.js';
import { calls, type Cause, cause, DELIVERED, duplicates, RECONCILED, requests, runs, series } from './cause.js';
import type { MeteredApp } from './metered-app.js';

/** A call to Stripe as another process of ours would make it, with our ids, under no key that we know. */
async function atStripe({ paying }: MeteredApp, path: string, body: Record<string, string>): Promise<void> {
  const answer = await fetch(`${paying.sandbox.url}${path}`, {
    method: 'POST',
    headers: { Authorization: 'Bearer sk_test_any' },
    body: new URLSearchParams({ 'metadata[tenant]': ACME.tenantId, ...body }),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
}

const chargeAgain = (app: MeteredApp, paymentId: string, amount = '900') =>
  atStripe(app, '/v1/payment_intents', {
    ...{ amount, currency: 'eur', payment_method: 'pm_card_visa', confirm: 'true' },
    ...{ 'metadata[payment]': paymentId, 'automatic_payment_methods[enabled]': 'true' },
    'automatic_payment_methods[allow_redirects]': 'never',
  });

const reconcile = (app: MeteredApp) => app.get(Reconciliation).run();
const paid = async ({ paying }: MeteredApp) => (await paying.paid(CARD)).id;

const IN_PROGRESS = series('orders_idempotency_keys', { state: 'in_progress' });

/** What is done twice, and what is found to be odd, whoever finds it. */
export const DUPLICATE_CAUSES: readonly Cause[] = [
  cause({
    cause: 'the reconciliation finds nothing new',
    before: paid,
    happen: reconcile,
    moves: RECONCILED,
  }),
  cause({
    cause: 'the reconciliation finds a second charge, and gives it back',
    before: async (app) => chargeAgain(app, await paid(app)),
    happen: reconcile,
    moves: { [duplicates('stripe', 'charge')]: 1, [calls('stripe', 'refund', 'succeeded')]: 1, ...RECONCILED },
  }),
  cause({
    cause: 'the reconciliation finds a second charge, and cannot give it back yet',
    before: async (app) => {
      await chargeAgain(app, await paid(app));
      await app.paying.sandbox.arm('refunds.create', 'error-503');
    },
    happen: reconcile,
    moves: {
      [duplicates('stripe', 'charge')]: 1,
      [calls('stripe', 'refund', 'unknown')]: 1,
      orders_surplus_charges_open: 1,
      ...RECONCILED,
    },
  }),
  cause({
    cause: 'the reconciliation finds a charge of another amount',
    before: async (app) => chargeAgain(app, await paid(app), '901'),
    happen: reconcile,
    moves: { orders_payment_reviews_open: 1, ...RECONCILED },
  }),
  cause({
    cause: 'the reconciliation finds a second refund',
    before: async (app) => {
      const id = await paid(app);
      const { body } = await app.paying.refund(id, { amount: 100 });
      const { body: payment } = await app.paying.as().get(`/v1/payments/${id}`);
      const ids = { 'metadata[payment]': id, 'metadata[refund]': body.id };
      await atStripe(app, '/v1/refunds', { payment_intent: payment.providerRef, amount: '100', ...ids });
    },
    happen: reconcile,
    moves: { [duplicates('stripe', 'refund')]: 1, ...RECONCILED, ...DELIVERED },
  }),
  cause({
    cause: 'a look-up shows that the bank has made a transfer twice',
    before: async ({ paying }) => {
      const sought = { orderId: await paying.order(), key: randomUUID() };
      await paying.sandbox.arm('bank_transfers.create', 'drop-response');
      await paying.pay(sought.orderId, TRANSFER, sought.key);
      const { reference, amount, currency } = { ...(await transferMade(paying)), currency: 'EUR' };
      await paying.sandbox.send('POST', '/bank/transfers', { reference, amount, currency, account: TRANSFER.account });
      return sought;
    },
    happen: ({ paying }, { orderId, key }) => paying.pay(orderId, TRANSFER, key),
    moves: {
      [duplicates('bank', 'charge')]: 1,
      [requests('payments.create', 'taken_over')]: 1,
      [calls('bank', 'look_up', 'found')]: 1,
      [IN_PROGRESS]: -1,
      orders_payments_unknown: -1,
      orders_surplus_charges_open: 1,
      ...DELIVERED,
    },
  }),
  cause({
    cause: 'a look-up shows that the bank has given back twice',
    before: async ({ paying }) => {
      const payment = await paying.paid(TRANSFER);
      const key = randomUUID();
      await paying.sandbox.arm('bank_transfers.create', 'drop-response');
      await paying.refund(payment.id, { amount: 100 }, key);
      const [again] = await paying.database.query(
        `SELECT r.id AS reference, 100 AS amount, 'EUR' AS currency, p.provider_ref AS "refundOf"
         FROM refunds r JOIN payments p ON p.id = r.payment_id`,
      );
      await paying.sandbox.send('POST', '/bank/transfers', again);
      return { id: payment.id, key };
    },
    happen: ({ paying }, { id, key }) => paying.refund(id, { amount: 100 }, key),
    moves: {
      [duplicates('bank', 'refund')]: 1,
      [requests('refunds.create', 'taken_over')]: 1,
      [calls('bank', 'look_up', 'found')]: 1,
      [IN_PROGRESS]: -1,
      orders_refunds_unknown: -1,
      [series('orders_event_deliveries_total', { outcome: 'published' })]: 2, // the refund, and the other one
    },
  }),
  cause({
    cause: 'a key expires and stays',
    before: ({ paying }) => paying.order(),
    happen: (app) => app.sql(`UPDATE idempotency_keys SET expires_at = statement_timestamp() - interval '2 hours'`),
    moves: { orders_idempotency_expiry_lag_seconds: 2 },
  }),
  cause({
    cause: 'the cleanup removes it',
    before: async (app) => {
      await app.paying.order();
      await app.sql(`UPDATE idempotency_keys SET expires_at = statement_timestamp() - interval '2 hours'`);
    },
    happen: (app) => app.get(KeyCleanup).run(),
    moves: { orders_idempotency_expiry_lag_seconds: -2, [runs('idempotency-key-cleanup', 'succeeded')]: 1 },
  }),
  cause({
    cause: 'the cleanup fails',
    happen: async (app) => {
      await app.sql('ALTER TABLE idempotency_keys RENAME TO elsewhere');
      await app
        .get(KeyCleanup)
        .run()
        .catch(() => undefined);
      await app.sql('ALTER TABLE elsewhere RENAME TO idempotency_keys');
    },
    moves: { [runs('idempotency-key-cleanup', 'failed')]: 1 },
  }),
];

async function transferMade({ database }: MeteredApp['paying']): Promise<{ reference: string; amount: number }> {
  const [payment] = await database.query<{ reference: string; amount: number }>(
    'SELECT id AS reference, amount::int AS amount FROM payments',
  );
  return payment!;
}
