import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { CARD, DECLINED_CARD, PayingApp, TRANSFER } from './paying.js';
import { ACME } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';
import { expectReplayOf } from '../idempotency/expect-replay-of.js';

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '500ms' })));
afterAll(() => app.stop());
beforeEach(() => app.clear());

const NOTHING = { payments: 0, refunds: 0, movements: 0, events: 0, effects: 0, keys: 0 };
const PAID = { payments: 1, refunds: 0, movements: 1, events: 1, effects: 1, keys: 1 };

describe.each([
  ['by card', CARD, 'payment_intents.create'],
  ['by bank transfer', TRANSFER, 'bank_transfers.create'],
])('paying %s', (_how, means, operation) => {
  it('takes the total once, and a repeat replays the answer (M2, M16)', async () => {
    const orderId = await app.order();
    const key = randomUUID();
    const first = await app.pay(orderId, means, key);

    expect(first.status).toBe(201);
    expect(first.body).toMatchObject({ orderId, status: 'succeeded', amount: 900, refundedAmount: 0, currency: 'EUR' });
    expect(first.headers).toMatchObject({ etag: '"2"', location: `/v1/payments/${first.body.id}` });
    expectReplayOf(first, await app.pay(orderId, means, key));
    expect(await app.counts()).toEqual(PAID);
    expect(await app.eventsOf(first.body.id as string)).toEqual(['payment.succeeded 2']);
    expect((await app.as().get(`/v1/payments/${first.body.id}`)).body).toEqual(first.body);
    expect((await app.as().get(`/v1/orders/${orderId}`)).body).toMatchObject({ status: 'paid', version: 2 });
  });

  it('finds what a lost reply had done, at once and after a new key was refused (K13, K14)', async () => {
    const orderId = await app.order();
    const key = randomUUID();
    await app.sandbox.arm(operation, 'drop-response');
    const lost = await app.pay(orderId, means, key);
    expect([lost.status, lost.body.code]).toEqual([503, 'payment-outcome-unknown']);
    expect(Number(lost.headers['retry-after'])).toBeGreaterThan(0);

    const other = await app.pay(orderId, means);
    expect([other.status, other.body.code]).toEqual([409, 'payment-in-progress']);

    const found = await app.pay(orderId, means, key);
    expect(found.status).toBe(201);
    expectReplayOf(found, await app.pay(orderId, means, key));
    expect(await app.counts()).toEqual(PAID);
    expect((await app.sandbox.calls()).length).toBe(1); // it looked, and did not call again
  });

  it.each([
    ['drop-response', 503, 'payment-outcome-unknown'],
    ['error-500', 503, 'payment-outcome-unknown'],
    ['delay', 503, 'payment-outcome-unknown'],
  ])('after %s answers 503 and settles with the same key', async (fault, status, code) => {
    const orderId = await app.order();
    const key = randomUUID();
    await app.sandbox.arm(operation, fault, { delayMs: 1_500 });
    const unsure = await app.pay(orderId, means, key);
    expect([unsure.status, unsure.body.code]).toEqual([status, code]);

    const sure = await app.pay(orderId, means, key);
    expect([sure.status, sure.body.status]).toEqual([201, 'succeeded']);
    expect(await app.counts()).toEqual(PAID);
  });

  it('refuses what the provider refuses for the means of payment, and stores it', async () => {
    const orderId = await app.order();
    const key = randomUUID();
    const bad = means === CARD ? { ...CARD, paymentMethod: 'pm_nobody' } : { ...TRANSFER, account: 'nonsense' };
    const refused = await app.pay(orderId, bad, key);

    expect([refused.status, refused.body.code]).toEqual([402, 'payment-declined']);
    expect(refused.body.declineCode).toEqual(expect.any(String));
    expectReplayOf(refused, await app.pay(orderId, bad, key));
    expect(await app.counts()).toEqual({ ...PAID, movements: 0, effects: 0 });
    expect((await app.pay(orderId, means)).status).toBe(201); // the order is open again
  });
});

describe('paying', () => {
  it('stores a decline and replays it verbatim (K9)', async () => {
    const orderId = await app.order();
    const key = randomUUID();
    const declined = await app.pay(orderId, DECLINED_CARD, key);

    expect(declined.status).toBe(402);
    expect(declined.body).toMatchObject({ code: 'payment-declined', declineCode: 'insufficient_funds' });
    expectReplayOf(declined, await app.pay(orderId, DECLINED_CARD, key));
    expect(await app.counts()).toEqual({ ...PAID, movements: 0, effects: 0 });
    expect(await app.eventsOf(declined.body.paymentId as string)).toEqual(['payment.declined 2']);
  });

  it('runs again when the order did not exist yet (K26)', async () => {
    const orderId = randomUUID();
    const key = randomUUID();
    expect((await app.pay(orderId, CARD, key)).status).toBe(404);
    expect(await app.counts()).toEqual(NOTHING);

    await app.as().put(`/v1/orders/${orderId}`, { currency: 'EUR', items: [{ sku: 'tea', unitAmount: 450 }] });
    expect((await app.pay(orderId, CARD, key)).status).toBe(201);
    expect(await app.counts()).toEqual(PAID);
  });

  it.each(['error-503', 'reset-connection'])(
    'when the provider does nothing (%s) the same key goes on',
    async (fault) => {
      const orderId = await app.order();
      const key = randomUUID();
      await app.sandbox.arm('payment_intents.create', fault);
      expect((await app.pay(orderId, CARD, key)).status).toBe(503);

      expect((await app.pay(orderId, CARD, key)).status).toBe(201);
      expect(await app.counts()).toEqual(PAID);
    },
  );

  it('goes on when its client goes away, and the retry gets the one outcome (K8)', async () => {
    const orderId = await app.order();
    const key = randomUUID();
    await app.sandbox.arm('payment_intents.create', 'delay', { delayMs: 200 });
    const gone = new AbortController();
    const left = fetch(`${app.service.baseUrl}/v1/orders/${orderId}/payments`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${ACME.key}`, 'Content-Type': 'application/json', 'Idempotency-Key': key },
      body: JSON.stringify(CARD),
      signal: gone.signal,
    }).catch((error: Error) => error.name);
    await waitFor(async () => (await app.database.count('payments')) === 1, { description: 'the payment to begin' });
    gone.abort();
    expect(await left).toBe('AbortError');

    const retried = await app.pay(orderId, CARD, key);
    expect([retried.status, retried.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect(await app.counts()).toEqual(PAID);
    expect(await app.sandbox.calls()).toHaveLength(1);
  });

  it('of one key, 20 times at once, and of 20 keys at once: one effect each time', async () => {
    const [one, other] = [await app.order(), await app.order()];
    const key = randomUUID();
    const same = await Promise.all(Array.from({ length: 20 }, () => app.pay(one, CARD, key)));
    const different = await Promise.all(Array.from({ length: 20 }, () => app.pay(other)));

    expect(new Set(same.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(same.map(({ text }) => text)).size).toBe(1);
    const codes = different.map(({ status, body }) => (status === 201 ? '201' : (body.code as string)));
    expect(codes.filter((code) => code === '201')).toHaveLength(1);
    for (const code of codes) expect(['201', 'payment-in-progress', 'order-already-paid']).toContain(code);
    expect(await app.counts()).toMatchObject({ payments: 2, movements: 2, events: 2, effects: 2 });
  });
});
