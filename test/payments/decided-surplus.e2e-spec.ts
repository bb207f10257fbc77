import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Reconciliation } from '../../src/payments/reconciliation.js';
import { type Review, ReviewError, Reviews } from '../../src/payments/reviews.js';
import { type Outcome, runBuilt } from '../support/built-command.js';
import { PayingApp, TRANSFER } from './paying.js';

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '500ms', RECONCILIATION_INTERVAL: '1h' })));
afterAll(() => app.stop());
beforeEach(() => app.clear());

const HUNDRED = { items: [{ sku: 'tea', unitAmount: 100 }] };
const BACK = { currency: 'EUR', amount: 100 };

const reconcile = () => app.service.app.get(Reconciliation).run();
const reviews = () => app.service.app.get(Reviews);

/** As if all that was sent had been sent long ago, by somebody whose lease has lapsed. */
async function letTimePass(): Promise<void> {
  for (const table of ['payments', 'surplus_charges'])
    await app.database.query(`UPDATE ${table} SET sent_at = sent_at - interval '26 hours'`);
  await app.database.query(`UPDATE surplus_charges SET lease_until = lease_until - interval '26 hours'`);
}

const payments = (...args: string[]): Promise<Outcome> =>
  runBuilt('payments.command.js', args, {
    DATABASE_URL: app.database.url,
    ...{ STRIPE_API_BASE: app.sandbox.url, BANK_API_BASE: app.sandbox.url },
  });

const made = async (): Promise<number> =>
  (await app.sandbox.calls()).filter(({ operation }) => operation === 'bank_transfers.create').length;
/** Somebody at the bank's counter. @returns the bank's name for it */
const transfer = async (what: Record<string, string>): Promise<string> =>
  ((await app.sandbox.send('POST', '/bank/transfers', { ...what, ...BACK })) as { id: string }).id;
const balance = async () => {
  const [row] = await app.database.query<{ sum: number }>('SELECT sum(amount)::int AS sum FROM money_movements');
  return row!.sum;
};
const unreturned = () => app.database.count('surplus_charges', `status <> 'returned'`);

/**
 * A transfer that was given up landed after its order had been paid by card; the call that was to give it back has been
 * lost, and the bank shows nothing of it: it may have been lost, or be on its way.
 */
async function doubtful(): Promise<{ charge: string; review: Review }> {
  const orderId = await app.order(HUNDRED);
  const key = randomUUID();
  await app.sandbox.arm('bank_transfers.create', 'reset-connection');
  expect((await app.pay(orderId, TRANSFER, key)).status).toBe(503);
  await letTimePass();
  await reconcile();
  const { paymentId } = (await app.pay(orderId, TRANSFER, key)).body as { paymentId: string };
  expect((await app.pay(orderId)).status).toBe(201);
  const charge = await transfer({ reference: paymentId, account: TRANSFER.account });
  await app.sandbox.arm('bank_transfers.create', 'reset-connection');
  await reconcile();
  expect(await unreturned()).toBe(1);
  await letTimePass();
  await reconcile();
  const [review, ...others] = await reviews().list();
  expect([review?.reason, others]).toEqual(['surplus-not-returned', []]);
  return { charge, review: review! };
}

describe('M20, M21: a surplus charge at a provider without keys, of which nobody knows whether it was given back', () => {
  it('is not given back again without a person, however often it is looked at', async () => {
    await doubtful();
    const before = await made();
    for (let n = 0; n < 3; n++) {
      await letTimePass();
      await reconcile();
    }
    expect(await reviews().list()).toHaveLength(1);
    expect(await app.sandbox.effects()).toHaveLength(2); // the card's charge, and the late transfer
    expect(await made()).toBe(before);
    expect(await balance()).toBe(200);
  });

  it('is called for once more when a person has found that it has not moved and will not', async () => {
    const { review } = await doubtful();
    await reviews().resolve(review.id, { kind: 'failed' });
    expect(await reviews().list()).toEqual([]);
    await reconcile();
    await reconcile();
    expect([await unreturned(), await balance()]).toEqual([0, 100]);
    expect(await app.sandbox.effects()).toHaveLength(3);
  });

  it('is booked as given back when a person names the transfer, and never called for again', async () => {
    const { charge, review } = await doubtful();
    const reference = await transfer({ reference: 'by hand', refundOf: charge });
    await reviews().resolve(review.id, { kind: 'succeeded', reference });
    await letTimePass();
    await reconcile();
    expect([await unreturned(), await balance()]).toEqual([0, 100]);
    expect(await app.sandbox.effects()).toHaveLength(3);
    const movements = `kind = 'refund' AND surplus AND provider_ref = '${reference}' AND amount = -100`;
    expect(await app.database.count('money_movements', movements)).toBe(1);
    expect(await reviews().list()).toEqual([]);
  });

  it('withdraws its question when the bank shows it after all', async () => {
    const { charge, review } = await doubtful();
    await transfer({ reference: review.subjectId, refundOf: charge });
    await letTimePass();
    await reconcile();
    expect([await unreturned(), await balance()]).toEqual([0, 100]);
    expect(await reviews().list()).toEqual([]);
    await expect(reviews().resolve(review.id, { kind: 'failed' })).rejects.toThrow(ReviewError);
    await reconcile();
    expect(await app.sandbox.effects()).toHaveLength(3);
  });
});

describe('npm run payments', () => {
  it('lists what a person must decide, and writes the decision down', async () => {
    const { charge, review } = await doubtful();
    const listed = await payments('list');
    expect([listed.code, listed.stderr]).toEqual([0, '']);
    for (const part of [review.id, review.reason, review.tenantId, review.paymentId, review.subjectId, charge])
      expect(listed.stdout).toContain(part);

    const resolved = await payments('resolve', review.id, 'failed');
    expect(resolved).toEqual({ code: 0, stdout: `The review ${review.id} is resolved: failed.\n`, stderr: '' });
    await reconcile();
    expect([await unreturned(), await balance()]).toEqual([0, 100]);
    expect((await payments('list')).stdout).toBe('There is nothing to decide.\n');
  });

  it.each([
    [[], /^Usage:/],
    [['resolve'], /^Usage:/],
    [['resolve', randomUUID(), 'succeeded'], /^Usage:/],
    [['resolve', randomUUID(), 'maybe'], /^Usage:/],
    [['list', 'all'], /^Usage:/],
    [['resolve', randomUUID(), 'failed'], /^There is no open review /],
  ])('refuses %j and says why', async (args, why) => {
    const { code, stdout, stderr } = await payments(...args);
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringMatching(why)]);
    expect(stderr).not.toMatch(/\n\s+at /);
  });
});
