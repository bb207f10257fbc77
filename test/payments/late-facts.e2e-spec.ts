import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Reconciliation } from '../../src/payments/reconciliation.js';
import { Reviews } from '../../src/payments/reviews.js';
import type { ApiResponse } from '../support/api-client.js';
import { CARD, PayingApp, TRANSFER } from './paying.js';

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '2s', RECONCILIATION_INTERVAL: '1h' })));
afterAll(() => app.stop());
beforeEach(() => app.clear());

const HUNDRED = { items: [{ sku: 'tea', unitAmount: 100 }] };

const reconcile = () => app.service.app.get(Reconciliation).run();
const payment = (id: string): Promise<ApiResponse> => app.as().get(`/v1/payments/${id}`);
const statusOf = async (orderId: string): Promise<string> => (await app.as().get(`/v1/orders/${orderId}`)).body.status;
const atStripe = async (id: string): Promise<string> => (await payment(id)).body.providerRef as string;
const refundByHand = async (charge: string, amount?: number) =>
  app.sandbox.send('POST', `/sandbox/payment_intents/${charge}/refund`, amount === undefined ? undefined : { amount });

/** What the books say moved, all in all. */
async function booked(): Promise<number> {
  const [row] = await app.database.query<{ sum: number }>('SELECT sum(amount)::int AS sum FROM money_movements');
  return row!.sum;
}

/** As if everything that is open had been sent long ago: the next look gives up what left no trace. */
async function letTimePass(): Promise<void> {
  for (const table of ['payments', 'refunds'])
    await app.database.query(`UPDATE ${table} SET sent_at = sent_at - interval '26 hours' WHERE status = 'pending'`);
}

/** Of the last refund: `refund.failed`, `refund.created`. */
async function noticesOf(...types: string[]): Promise<string[]> {
  const notices = await app.notices();
  return types.map((type) => notices.findLast((notice) => (JSON.parse(notice) as { type: string }).type === type)!);
}

describe('a refund of which the provider tells late and out of order', () => {
  it('stays failed when it is told to have succeeded after it was told to have failed', async () => {
    const { id, orderId } = await app.paid(CARD, HUNDRED);
    const key = randomUUID();
    await app.sandbox.arm('refunds.create', 'drop-response');
    expect((await app.refund(id, { amount: 60 }, key)).status).toBe(503);
    const { reference } = (await app.sandbox.effects()).at(-1)!;
    await app.sandbox.send('POST', `/sandbox/refunds/${reference}/fail`);

    for (const notice of await noticesOf('refund.failed', 'refund.created', 'refund.failed'))
      expect((await app.tell(notice)).status).toBe(204);
    expect((await payment(id)).body).toMatchObject({ refundedAmount: 0 });
    expect(await booked()).toBe(100);
    expect(await statusOf(orderId)).toBe('paid');
    expect((await app.refund(id, { amount: 60 }, key)).body.code).toBe('payment-declined');
    expect((await app.refund(id, {})).body).toMatchObject({ amount: 100 }); // nothing is reserved any more
  });

  it('leaves room for another one that was made when it had failed, whichever is told of first', async () => {
    const { id, orderId } = await app.paid(CARD, HUNDRED);
    expect((await app.refund(id, { amount: 60 })).status).toBe(201);
    const { reference } = (await app.sandbox.effects()).at(-1)!;
    await app.sandbox.send('POST', `/sandbox/refunds/${reference}/fail`);
    await refundByHand(await atStripe(id), 70);

    const [created, failed] = await noticesOf('refund.created', 'refund.failed');
    expect((await app.tell(created!)).status).toBe(503); // it is to be told again
    expect((await payment(id)).body).toMatchObject({ refundedAmount: 60 });
    expect((await app.tell(failed!)).status).toBe(204);
    expect((await app.tell(created!)).status).toBe(204);
    expect((await payment(id)).body).toMatchObject({ refundedAmount: 70 });
    expect(await booked()).toBe(30);
    expect(await statusOf(orderId)).toBe('partially_refunded');
  });

  it('is found by the reconciler alone, and so is another one that was made when it had failed', async () => {
    const { id } = await app.paid(CARD, HUNDRED);
    expect((await app.refund(id, { amount: 60 })).status).toBe(201);
    const { reference } = (await app.sandbox.effects()).at(-1)!;
    await app.sandbox.send('POST', `/sandbox/refunds/${reference}/fail`);
    await refundByHand(await atStripe(id), 70);

    await reconcile();
    expect((await payment(id)).body).toMatchObject({ refundedAmount: 70 });
    expect(await booked()).toBe(30);
  });

  it('is booked when it reached the bank after it had been given up', async () => {
    const { id, orderId } = await app.paid(TRANSFER, HUNDRED);
    await app.sandbox.arm('bank_transfers.create', 'reset-connection');
    const key = randomUUID();
    expect((await app.refund(id, { amount: 60 }, key)).status).toBe(503);
    await letTimePass();
    await reconcile();
    const givenUp = await app.refund(id, { amount: 60 }, key);
    expect(givenUp.body.code).toBe('payment-failed');

    const [transfer] = await app.database.query<{ ref: string }>('SELECT provider_ref AS ref FROM payments');
    const late = { reference: givenUp.body.refundId, amount: 60, currency: 'EUR', refundOf: transfer!.ref };
    await app.sandbox.send('POST', '/bank/transfers', late);
    await reconcile();
    await reconcile();
    expect((await payment(id)).body).toMatchObject({ refundedAmount: 60 });
    expect(await booked()).toBe(40);
    expect(await statusOf(orderId)).toBe('partially_refunded');
    expect(await app.eventsOf(givenUp.body.refundId as string)).toEqual(['refund.failed 2', 'refund.succeeded 3']);
  });
});

describe('a refund that was made in the dashboard', () => {
  it('is booked when it is told of before the charge is', async () => {
    const orderId = await app.order(HUNDRED);
    const key = randomUUID();
    await app.sandbox.arm('payment_intents.create', 'drop-response');
    expect((await app.pay(orderId, CARD, key)).status).toBe(503);
    await refundByHand((await app.sandbox.effects())[0]!.reference, 30);
    for (const notice of (await app.notices()).reverse()) expect((await app.tell(notice)).status).toBe(204);

    await reconcile();
    const paid = await app.pay(orderId, CARD, key);
    expect(paid.status).toBe(201);
    expect((await payment(paid.body.id as string)).body).toMatchObject({ refundedAmount: 30 });
    expect(await booked()).toBe(70);
    expect(await statusOf(orderId)).toBe('partially_refunded');
  });

  it('leaves a version as it was shown when it only crosses a refund that is then refused', async () => {
    const { id } = await app.paid(CARD, HUNDRED);
    const shown = await payment(id);
    await refundByHand(shown.body.providerRef as string);
    expect((await app.refund(id, { amount: 40 })).body.code).toBe('payment-declined');

    const again = await payment(id);
    expect([again.headers.etag, again.text]).toEqual([shown.headers.etag, shown.text]);
    await reconcile();
    expect((await payment(id)).body).toMatchObject({ refundedAmount: 100, version: 3 });
  });
});

describe('a charge that came after its payment was given up, and after the order was paid by another', () => {
  /** @returns the surplus charge, of which the service has not heard yet */
  async function surplus(): Promise<{ orderId: string; charge: string }> {
    const orderId = await app.order(HUNDRED);
    const key = randomUUID();
    await app.sandbox.arm('payment_intents.create', 'reset-connection');
    expect((await app.pay(orderId, CARD, key)).status).toBe(503);
    await letTimePass();
    await reconcile();
    const givenUp = await app.pay(orderId, CARD, key);
    expect(givenUp.body.code).toBe('payment-failed');
    expect((await app.pay(orderId)).status).toBe(201);
    const [{ tenant_id: tenant } = {}] = await app.database.query<{ tenant_id: string }>('SELECT * FROM payments');
    const form = new URLSearchParams({
      ...{ amount: '100', currency: 'eur', payment_method: 'pm_card_visa', confirm: 'true' },
      ...{ 'metadata[tenant]': tenant!, 'metadata[payment]': givenUp.body.paymentId as string },
    });
    const made = await fetch(`${app.sandbox.url}/v1/payment_intents`, {
      method: 'POST',
      body: form,
      headers: { Authorization: 'Bearer sk_test_sandbox' },
    });
    return { orderId, charge: ((await made.json()) as { id: string }).id };
  }

  const expectReturned = async (orderId: string, refunds = 1): Promise<void> => {
    expect(await app.database.count('surplus_charges', `status <> 'returned'`)).toBe(0);
    expect(await booked()).toBe(100);
    expect(await statusOf(orderId)).toBe('paid');
    const effects = await app.sandbox.effects();
    expect(effects.filter(({ operation }) => operation === 'refunds.create')).toHaveLength(refunds);
  };

  it('is given back once', async () => {
    const { orderId } = await surplus();
    await reconcile();
    await reconcile();
    await expectReturned(orderId);
  });

  it('is taken for given back when a person did that in the dashboard first', async () => {
    const { orderId, charge } = await surplus();
    await refundByHand(charge);
    await reconcile();
    await reconcile();
    await expectReturned(orderId);
  });

  it('is given back for the rest when a person gave back a part', async () => {
    const { orderId, charge } = await surplus();
    await refundByHand(charge, 30);
    await reconcile();
    await reconcile();
    await expectReturned(orderId, 2);
  });

  it('is asked about when giving it back has failed in the end', async () => {
    const { orderId } = await surplus();
    await reconcile();
    await expectReturned(orderId);
    const { reference } = (await app.sandbox.effects()).at(-1)!;
    await app.sandbox.send('POST', `/sandbox/refunds/${reference}/fail`);
    for (const notice of await noticesOf('refund.updated', 'refund.failed'))
      expect((await app.tell(notice)).status).toBe(204);
    await reconcile();

    expect(await booked()).toBe(200);
    expect(await app.database.count('payment_reviews', `reason = 'surplus-not-returned'`)).toBe(1);
    expect((await app.sandbox.calls()).filter(({ operation }) => operation === 'refunds.create')).toHaveLength(1);

    const reviews = app.service.app.get(Reviews);
    const [review] = await reviews.list();
    await expect(reviews.resolve(review!.id, { kind: 'failed' })).rejects.toThrow(/by hand/);
    await expect(reviews.resolve(review!.id, { kind: 'succeeded', reference })).rejects.toThrow(/in the books/);
    await reviews.resolve(review!.id, { kind: 'succeeded', reference: 're_by_hand' });
    expect([await booked(), await reviews.list()]).toEqual([100, []]);
  });
});
