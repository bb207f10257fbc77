import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { expectReplayOf } from '../idempotency/expect-replay-of.js';
import { CARD, PayingApp, TRANSFER } from './paying.js';

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '500ms' })));
afterAll(() => app.stop());
beforeEach(() => app.clear());

const REFUNDED = { payments: 1, refunds: 1, movements: 2, events: 2, effects: 2, keys: 2 };
const statusOf = async (orderId: string) => (await app.as().get(`/v1/orders/${orderId}`)).body.status as string;

describe.each([
  ['by card', CARD, 'refunds.create'],
  ['by bank transfer', TRANSFER, 'bank_transfers.create'],
])('a refund of a payment %s', (_how, means, operation) => {
  it('gives a part back once, and the rest when no amount is named', async () => {
    const { id, orderId } = await app.paid(means);
    const key = randomUUID();
    const part = await app.refund(id, { amount: 300, reason: 'broken', reference: 'r-1' }, key);

    expect(part.status).toBe(201);
    expect(part.body).toMatchObject({
      paymentId: id,
      amount: 300,
      status: 'succeeded',
      reason: 'broken',
      reference: 'r-1',
    });
    expect(part.headers).toMatchObject({ etag: '"2"', location: `/v1/refunds/${part.body.id}` });
    expectReplayOf(part, await app.refund(id, { amount: 300, reason: 'broken', reference: 'r-1' }, key));
    expect(await app.counts()).toEqual(REFUNDED);
    expect(await app.eventsOf(part.body.id as string)).toEqual(['refund.succeeded 2']);
    expect(await statusOf(orderId)).toBe('partially_refunded');
    expect((await app.as().get(`/v1/payments/${id}`)).body).toMatchObject({ refundedAmount: 300, version: 3 });

    const rest = await app.refund(id);
    expect([rest.status, rest.body.amount]).toEqual([201, 600]);
    expect(await statusOf(orderId)).toBe('refunded');
    expect((await app.as().get(`/v1/payments/${id}/refunds`)).body.data).toEqual([part.body, rest.body]);
    expect((await app.as().get(`/v1/refunds/${rest.body.id}`)).body).toEqual(rest.body);

    const more = await app.refund(id);
    expect([more.status, more.body.code, more.body.refundable]).toEqual([422, 'refund-exceeds-payment', 0]);
  });

  it('that lost its reply is found, its amount fixed at the first attempt', async () => {
    const { id } = await app.paid(means);
    const key = randomUUID();
    await app.sandbox.arm(operation, 'drop-response');
    const lost = await app.refund(id, {}, key);
    expect([lost.status, lost.body.code]).toEqual([503, 'payment-outcome-unknown']);
    // What is unknown counts: nothing is left for another.
    expect((await app.refund(id, { amount: 1 })).status).toBe(422);

    const found = await app.refund(id, {}, key);
    expect([found.status, found.body.amount]).toEqual([201, 900]);
    expectReplayOf(found, await app.refund(id, {}, key));
    expect({ ...(await app.counts()), keys: 2 }).toEqual(REFUNDED);
  });
});

describe('a refund', () => {
  it('of another tenant, of nothing, or of too much is refused', async () => {
    const { id } = await app.paid();
    const { status } = await app.as({ key: 'sk_demo_globex' }).post(`/v1/payments/${id}/refunds`, {});
    expect(status).toBe(404);
    for (const [body, expected] of [
      [{ amount: 0 }, 400],
      [{ amount: 1.5 }, 400],
      [{ amount: null }, 400],
      [{ much: 1 }, 400],
      [{ amount: 901 }, 422],
    ] as const) {
      expect([body, (await app.refund(id, body)).status]).toEqual([body, expected]);
    }
    expect(await app.counts()).toMatchObject({ refunds: 0, movements: 1, effects: 1 });
  });

  it('with a reference that is taken names the refund that has it', async () => {
    const { id } = await app.paid();
    const first = await app.refund(id, { amount: 100, reference: 'r-1' });
    const second = await app.refund(id, { amount: 100, reference: 'r-1' });

    expect([second.status, second.body.code, second.body.refundId]).toEqual([
      409,
      'duplicate-external-ref',
      first.body.id,
    ]);
    expect(await app.counts()).toMatchObject({ refunds: 1, effects: 2 });
  });

  it('of a payment that is not known yet has to wait', async () => {
    const orderId = await app.order();
    await app.sandbox.arm('payment_intents.create', 'drop-response');
    await app.pay(orderId);
    const [payment] = (await app.as().get(`/v1/orders/${orderId}/payments`)).body.data as { id: string }[];

    const early = await app.refund(payment!.id);
    expect([early.status, early.body.code]).toEqual([409, 'payment-in-progress']);
  });
});

describe('an order with a payment', () => {
  it('is closed to edits while the outcome is unknown, and cannot be deleted ever after', async () => {
    const orderId = await app.order({ externalRef: 'web-1' });
    const key = randomUUID();
    await app.sandbox.arm('payment_intents.create', 'drop-response');
    await app.pay(orderId, CARD, key);
    const edited = { currency: 'EUR', items: [{ sku: 'more', unitAmount: 1 }], externalRef: 'web-1' };
    for (const [method, path, body, headers] of [
      ['PUT', `/v1/orders/${orderId}`, edited, { 'If-Match': '"1"' }],
      ['PUT', '/v1/orders/by-external-ref/web-1', edited, {}],
      ['PATCH', `/v1/orders/${orderId}`, { metadata: { a: 'b' } }, { 'If-Match': '"1"' }],
      ['PUT', `/v1/orders/${orderId}/status`, { status: 'cancelled' }, {}],
    ] as const) {
      const refused = await app.as().send(method, path, { body, headers });
      expect([method, path, refused.status, refused.body.code]).toEqual([method, path, 409, 'payment-in-progress']);
      expect(refused.headers['retry-after']).toBeDefined();
    }
    expect((await app.as().delete(`/v1/orders/${orderId}`)).body.code).toBe('order-not-editable');

    expect((await app.pay(orderId, CARD, key)).status).toBe(201);
    const again = await app.pay(orderId);
    expect([again.status, again.body.code, again.body.orderId]).toEqual([409, 'order-already-paid', orderId]);
    expect((await app.as().put(`/v1/orders/${orderId}/status`, { status: 'cancelled' })).body.code).toBe(
      'order-not-editable',
    );
  });

  it('that is cancelled cannot be paid', async () => {
    const orderId = await app.order();
    await app.as().put(`/v1/orders/${orderId}/status`, { status: 'cancelled' });
    const refused = await app.pay(orderId);

    expect([refused.status, refused.body.code, refused.body.orderId]).toEqual([409, 'order-not-payable', orderId]);
    expect(await app.counts()).toMatchObject({ payments: 0, effects: 0 });
  });
});

describe('a payment request', () => {
  it.each([
    [{}, '/method'],
    [{ method: 'cash' }, '/method'],
    [{ method: 'card' }, '/paymentMethod'],
    [{ method: 'card', paymentMethod: 'pm_card_visa', account: 'DE1' }, '/account'],
    [{ method: 'bank_transfer', paymentMethod: 'pm_card_visa' }, '/account'],
    [{ ...CARD, receiptEmail: 'nobody' }, '/receiptEmail'],
    [{ ...CARD, receiptEmail: '"a\r\nBcc: eve@evil.example\r\n"@shop.example' }, '/receiptEmail'],
    [{ ...CARD, receiptEmail: '"a,b"@shop.example' }, '/receiptEmail'],
    [{ ...CARD, paymentMethod: '' }, '/paymentMethod'],
    [{ ...CARD, more: 1 }, '/more'],
  ])('like %j is refused and stored', async (body, pointer) => {
    const orderId = await app.order();
    const key = randomUUID();
    const refused = await app.pay(orderId, body, key);

    expect([refused.status, refused.body.code]).toEqual([400, 'validation-failed']);
    expect((refused.body.errors as { pointer: string }[]).map((fault) => fault.pointer)).toContain(pointer);
    expectReplayOf(refused, await app.pay(orderId, body, key));
    expect(await app.counts()).toMatchObject({ payments: 0, effects: 0, keys: 1 });
  });
});
