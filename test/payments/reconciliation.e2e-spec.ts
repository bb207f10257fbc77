import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import Stripe from 'stripe';
import { Reconciliation } from '../../src/payments/reconciliation.js';
import { Reviews } from '../../src/payments/reviews.js';
import { expectReplayOf } from '../idempotency/expect-replay-of.js';
import { CARD, DECLINED_CARD, PayingApp, TRANSFER } from './paying.js';

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '500ms', RECONCILIATION_INTERVAL: '1h' })));
afterAll(() => app.stop());
beforeEach(() => app.clear());

const reconcile = () => app.service.app.get(Reconciliation).run();

/** Lets time pass in the database: everything that was sent was sent so much earlier. */
async function age(interval: string): Promise<void> {
  for (const table of ['payments', 'refunds', 'surplus_charges']) {
    await app.database.query(`UPDATE ${table} SET sent_at = sent_at - $1::interval`, [interval]);
  }
  await app.database.query(
    `UPDATE idempotency_keys SET created_at = created_at - $1::interval WHERE status = 'in_progress'`,
    [interval],
  );
  await app.database.query(`UPDATE surplus_charges SET lease_until = lease_until - $1::interval`, [interval]);
}

function stripeAt(): Stripe {
  const { hostname: host, port } = new URL(app.sandbox.url);
  return new Stripe('sk_test_any', { host, port, protocol: 'http', maxNetworkRetries: 0 });
}

async function lose(body: unknown, operation: string, fault = 'drop-response') {
  const orderId = await app.order();
  const key = randomUUID();
  await app.sandbox.arm(operation, fault);
  const lost = await app.pay(orderId, body, key);
  expect(lost.status).toBe(503);
  return { orderId, key };
}

const balance = async () => {
  const [row] = await app.database.query<{ sum: string | null }>('SELECT sum(amount) FROM money_movements');
  return Number(row!.sum);
};

describe('the reconciler', () => {
  it.each([
    ['card', CARD, 'payment_intents.create'],
    ['bank transfer', TRANSFER, 'bank_transfers.create'],
  ])('settles a %s of unknown outcome by looking, and completes the waiting key', async (_how, means, operation) => {
    const { orderId, key } = await lose(means, operation);
    expect(await reconcile()).toEqual({ settled: 1, open: 0 });
    expect(await app.counts()).toMatchObject({ payments: 1, movements: 1, events: 1, effects: 1 });
    expect((await app.sandbox.calls()).length).toBe(1);

    const answer = await app.pay(orderId, means, key);
    expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect((await app.as().get(answer.headers.location!)).body).toEqual(answer.body);
    expect(await reconcile()).toEqual({ settled: 0, open: 0 });
  });

  it('settles a decline, too', async () => {
    const { orderId, key } = await lose(DECLINED_CARD, 'payment_intents.create');
    await reconcile();

    const answer = await app.pay(orderId, DECLINED_CARD, key);
    expect([answer.status, answer.body.code, answer.headers['idempotent-replayed']]).toEqual([
      402,
      'payment-declined',
      'true',
    ]);
    expect((await app.pay(orderId)).status).toBe(201);
  });

  it('settles a refund of unknown outcome', async () => {
    const { id } = await app.paid();
    const key = randomUUID();
    await app.sandbox.arm('refunds.create', 'drop-response');
    expect((await app.refund(id, { amount: 300 }, key)).status).toBe(503);
    expect(await reconcile()).toEqual({ settled: 1, open: 0 });

    const answer = await app.refund(id, { amount: 300 }, key);
    expect([answer.status, answer.headers['idempotent-replayed'], answer.body.amount]).toEqual([201, 'true', 300]);
    expect(await app.counts()).toMatchObject({ refunds: 1, movements: 2, events: 2, effects: 2 });
  });

  it('gives up what left no trace, after RECONCILIATION_GIVE_UP and not before', async () => {
    const { orderId, key } = await lose(TRANSFER, 'bank_transfers.create', 'reset-connection');
    await age('24 hours 59 minutes');
    expect(await reconcile()).toEqual({ settled: 0, open: 1 });
    expect((await app.pay(orderId, TRANSFER, key)).status).toBe(503);

    await age('2 minutes');
    expect(await reconcile()).toEqual({ settled: 1, open: 0 });
    const answer = await app.pay(orderId, TRANSFER, key);
    expect([answer.status, answer.body.code]).toEqual([402, 'payment-failed']);
    expectReplayOf(
      { ...answer, headers: { ...answer.headers, 'idempotent-replayed': undefined } },
      await app.pay(orderId, TRANSFER, key),
    );
    expect(await app.eventsOf(answer.body.paymentId as string)).toEqual(['payment.failed 2']);
    expect((await app.sandbox.calls()).length).toBe(1);
    expect((await app.pay(orderId)).status).toBe(201); // the order is open again
  });

  it('asks nobody about what it gives up itself in a moment', async () => {
    await lose(TRANSFER, 'bank_transfers.create', 'reset-connection');
    await age('24 hours 59 minutes');
    // The claim is a little older than the call: for so long its time is up, and that of the call is not.
    await app.database.query(`UPDATE idempotency_keys SET created_at = created_at - interval '2 minutes'`);
    expect(await reconcile()).toEqual({ settled: 0, open: 1 });
    expect(await app.service.app.get(Reviews).list()).toEqual([]);
  });

  it('books money that lands after all, or gives it back when the order was paid by another payment', async () => {
    const { orderId } = await lose(TRANSFER, 'bank_transfers.create', 'reset-connection');
    const other = await lose(TRANSFER, 'bank_transfers.create', 'reset-connection');
    await age('26 hours');
    await reconcile();
    const paidAgain = await app.pay(other.orderId);
    for (const { id, amount } of await app.database.query<{ id: string; amount: string }>(
      `SELECT id, amount FROM payments WHERE status = 'failed'`,
    )) {
      const { account } = TRANSFER;
      const late = { reference: id, amount: Number(amount), currency: 'EUR', account };
      await app.sandbox.send('POST', '/bank/transfers', late);
    }
    await reconcile();
    await reconcile();

    expect((await app.as().get(`/v1/orders/${orderId}`)).body.status).toBe('paid');
    const payments = (await app.as().get(`/v1/orders/${other.orderId}/payments`)).body.data as { status: string }[];
    expect(payments.map(({ status }) => status)).toEqual(['failed', 'succeeded']);
    expect((await app.as().get(`/v1/payments/${paidAgain.body.id}`)).body.refundedAmount).toBe(0);
    expect(await app.database.count('surplus_charges', `status = 'returned'`)).toBe(1);
    expect(await balance()).toBe(1800);
    expect((await app.sandbox.effects()).length).toBe(4); // two late charges, one by card, and one given back
  });

  it('finds two charges for one payment and gives the surplus back once, a lost reply included', async () => {
    const { id, orderId } = await app.paid();
    const [payment] = await app.database.query<{ tenant_id: string }>('SELECT tenant_id FROM payments');
    const twice = await stripeAt().paymentIntents.create({
      amount: 900,
      currency: 'eur',
      payment_method: 'pm_card_visa',
      confirm: true,
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
      metadata: { tenant: payment!.tenant_id, payment: id, operation: randomUUID() },
    });
    await app.sandbox.arm('refunds.create', 'drop-response');
    await reconcile();
    expect(await app.database.query('SELECT status, charge_ref FROM surplus_charges')).toEqual([
      { status: 'sent', charge_ref: twice.id },
    ]);
    await age('1 hour');
    await reconcile();
    await reconcile();

    expect(await app.database.count('surplus_charges', `status = 'returned'`)).toBe(1);
    expect((await app.sandbox.effects()).map(({ operation }) => operation)).toEqual([
      'payment_intents.create',
      'payment_intents.create',
      'refunds.create',
    ]);
    expect(await balance()).toBe(900);
    expect((await app.as().get(`/v1/payments/${id}`)).body).toMatchObject({ status: 'succeeded', refundedAmount: 0 });
    expect((await app.as().get(`/v1/orders/${orderId}`)).body.status).toBe('paid');
    expect(await app.eventsOf(id)).toEqual(['payment.succeeded 2']);
  });

  it('finds a refund of the dashboard whose webhook was lost', async () => {
    const { id } = await app.paid();
    const [charge] = (await stripeAt().paymentIntents.list({ limit: 1 })).data;
    await app.sandbox.send('POST', `/sandbox/payment_intents/${charge!.id}/refund`, { amount: 200 });
    await reconcile();
    await reconcile();

    expect((await app.as().get(`/v1/payments/${id}`)).body.refundedAmount).toBe(200);
    expect(await app.counts()).toMatchObject({ refunds: 1, movements: 2, events: 2 });
  });

  it('withdraws the question when the outcome becomes known after all', async () => {
    const { orderId, key } = await lose(CARD, 'payment_intents.create');
    await app.database.query(`UPDATE payments SET currency = 'CHF'`); // it shows another currency than ours
    await age('26 hours');
    await reconcile();
    const reviews = app.service.app.get(Reviews);
    expect((await reviews.list()).map(({ reason }) => reason)).toContain('undecided');

    await app.database.query(`UPDATE payments SET currency = 'EUR'`);
    expect((await app.pay(orderId, CARD, key)).status).toBe(201);
    expect((await reviews.list()).map(({ reason }) => reason)).not.toContain('undecided');
  });

  it('leaves to a person what nobody can say by reading, once, and completes the key by the decision', async () => {
    const { orderId, key } = await lose(CARD, 'payment_intents.create');
    const { paymentId } = (await app.pay(orderId)).body as { paymentId: string };
    const reviews = app.service.app.get(Reviews);
    await app.database.query(`UPDATE payments SET amount = 901`); // it shows another amount than ours
    await age('26 hours');
    await reconcile();
    await reconcile();
    const open = await reviews.list();
    expect(open.map(({ subjectId, reason }) => [subjectId, reason])).toEqual([
      [paymentId, 'undecided'],
      [paymentId, 'amount-differs'],
    ]);

    await reviews.resolve(open[0]!.id, { kind: 'succeeded', reference: 'pi_by_hand' });
    await reviews.resolve(open[1]!.id, { kind: 'noted' });
    expect(await reviews.list()).toEqual([]);
    const answer = await app.pay(orderId, CARD, key);
    expect([answer.status, answer.body.providerRef]).toEqual([201, 'pi_by_hand']);
  });
});
