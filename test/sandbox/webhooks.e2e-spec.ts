import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type Stripe from 'stripe';
import { TestSandbox } from '../support/test-sandbox.js';
import { waitFor } from '../support/wait-for.js';
import { WebhookReceiver } from '../support/webhook-receiver.js';
import { card, refusalOf } from './charges.js';

const SECRET = 'whsec_test';

let provider: TestSandbox;
let receiver: WebhookReceiver;
let stripe: Stripe;
beforeAll(async () => {
  receiver = await WebhookReceiver.start();
  provider = await TestSandbox.start({
    webhook: { url: receiver.url, secret: SECRET },
    webhookRetryMs: 40,
    refundSettleMs: 100,
  });
  stripe = provider.stripe;
});
afterAll(async () => {
  expect(provider.errors).toEqual([]);
  await provider.stop();
  await receiver.stop();
});
beforeEach(() => {
  receiver.deliveries.length = 0;
  receiver.answer = () => 200;
});
afterEach(async () => {
  await provider.http.post('/sandbox/webhooks', { paused: false });
  receiver.answer = () => 200;
  await settled();
});

const undelivered = () => provider.database.count('sandbox.events', 'delivered_at IS NULL');
const settled = () => waitFor(async () => (await undelivered()) === 0, { description: 'all events to be taken' });
const arrived = (count: number) =>
  waitFor(() => receiver.deliveries.length >= count, { description: `${count} deliveries` });
const types = () => receiver.events.map(({ type }) => type as string).sort();
const verified = ({ body, signature }: { body: string; signature: string }) =>
  stripe.webhooks.constructEvent(body, signature, SECRET);

describe('an event', () => {
  it('of a charge that succeeds is signed as the SDK wants it and carries the PaymentIntent', async () => {
    const idempotencyKey = randomUUID();
    const intent = await stripe.paymentIntents.create({ ...card(), metadata: { tenant: 'acme' } }, { idempotencyKey });
    await settled();

    expect(receiver.deliveries.length).toBe(1);
    const event = verified(receiver.deliveries[0]!);
    expect(event).toMatchObject({
      id: expect.stringMatching(/^evt_/),
      object: 'event',
      type: 'payment_intent.succeeded',
      livemode: false,
      request: { id: intent.lastResponse.requestId, idempotency_key: idempotencyKey },
    });
    expect(event.data.object).toEqual({ ...intent });
    const { body, signature } = receiver.deliveries[0]!;
    expect(() => stripe.webhooks.constructEvent(body, signature, 'whsec_other')).toThrow();
    expect(() => stripe.webhooks.constructEvent(`${body} `, signature, SECRET)).toThrow();
  });

  it('tells of a decline, of a refund, and of one that fails later', async () => {
    const { payment_intent } = await refusalOf(
      stripe.paymentIntents.create(card(1_000, 'pm_card_visa_chargeDeclined')),
    );
    const intent = await stripe.paymentIntents.create(card(1_000, 'pm_card_refundFail'));
    const refund = await stripe.refunds.create({ payment_intent: intent.id, amount: 400, metadata: { refund: 'r1' } });
    await arrived(6);
    await settled();

    expect(types()).toEqual([
      'charge.refunded',
      'payment_intent.payment_failed',
      'payment_intent.succeeded',
      'refund.created',
      'refund.failed',
      'refund.updated',
    ]);
    const object = (type: string) => receiver.events.find((event) => event.type === type).data.object;
    expect(object('payment_intent.payment_failed')).toMatchObject({
      id: payment_intent!.id,
      last_payment_error: { decline_code: 'generic_decline' },
    });
    expect(object('refund.created')).toEqual({ ...refund });
    expect(object('charge.refunded')).toMatchObject({ id: refund.charge, amount_refunded: 400, refunded: false });
    expect(object('refund.failed')).toMatchObject({ id: refund.id, status: 'failed', metadata: { refund: 'r1' } });
  });

  it('tells of a refund by hand, without any request or metadata of ours', async () => {
    const intent = await stripe.paymentIntents.create(card());
    await provider.http.post(`/sandbox/payment_intents/${intent.id}/refund`, undefined);
    await arrived(3);

    const created = receiver.events.find(({ type }) => type === 'refund.created');
    expect(created).toMatchObject({
      request: { id: null, idempotency_key: null },
      data: { object: { payment_intent: intent.id, metadata: {} } },
    });
  });

  it('is sent once for a call that is repeated', async () => {
    const idempotencyKey = randomUUID();
    for (let n = 0; n < 3; n += 1) await stripe.paymentIntents.create(card(), { idempotencyKey });
    await settled();

    expect(types()).toEqual(['payment_intent.succeeded']);
  });

  it('is sent although the answer of its call was lost', async () => {
    await provider.arm('payment_intents.create', 'drop-response');
    await refusalOf(stripe.paymentIntents.create(card()));
    await arrived(1);

    expect(types()).toEqual(['payment_intent.succeeded']);
  });
});

describe('an event that is not taken', () => {
  it('is sent again, the same bytes each time, after delays that grow', async () => {
    receiver.answer = () => {
      const refusals = [500, undefined, 301];
      return receiver.deliveries.length > refusals.length ? 200 : refusals[receiver.deliveries.length - 1];
    };
    await stripe.paymentIntents.create(card());
    await settled();

    const { deliveries } = receiver;
    expect(deliveries.length).toBe(4);
    expect(new Set(deliveries.map(({ body }) => body)).size).toBe(1);
    for (const delivery of deliveries) verified(delivery);
    const gaps = deliveries.slice(1).map(({ at }, n) => at - deliveries[n]!.at);
    gaps.forEach((gap, n) => expect(gap).toBeGreaterThanOrEqual(40 * 2 ** n - 5));
  });

  it('is still sent after the sandbox was started anew', async () => {
    receiver.answer = () => 500;
    await stripe.paymentIntents.create(card());
    await arrived(1);
    await provider.restart();
    stripe = provider.stripe;
    receiver.answer = () => 200;
    await settled();

    expect(new Set(receiver.events.map(({ id }) => id as string)).size).toBe(1);
  });
});

describe('webhooks', () => {
  it('are held while they are paused, and sent afterwards; a pause outlives a restart', async () => {
    expect((await provider.http.post('/sandbox/webhooks', { paused: true })).body).toEqual({ paused: true });
    await stripe.paymentIntents.create(card());
    await provider.restart();
    stripe = provider.stripe;
    await stripe.paymentIntents.create(card());
    const released = performance.now();
    await provider.http.post('/sandbox/webhooks', { paused: false });
    await settled();
    expect(receiver.deliveries.length).toBe(2);
    for (const { at } of receiver.deliveries) expect(at).toBeGreaterThan(released);
  });

  it('can all be sent again, in the order asked for, although they are paused', async () => {
    await provider.http.post('/sandbox/webhooks', { paused: true });
    const ids = [];
    for (let n = 0; n < 3; n += 1) ids.push((await stripe.paymentIntents.create(card())).id);
    const sent = async (order?: string) => {
      receiver.deliveries.length = 0;
      const { status, body } = await provider.http.post('/sandbox/webhooks/redeliver', order && { order });
      expect([status, body]).toEqual([200, { sent: receiver.deliveries.length, failed: 0 }]);
      for (const delivery of receiver.deliveries) verified(delivery);
      return receiver.events.map(({ data }) => data.object.id as string);
    };

    const original = await sent();
    expect(original.slice(-3)).toEqual(ids);
    expect(await sent('reverse')).toEqual([...original].reverse());
    expect((await sent('random')).sort()).toEqual([...original].sort());
  });

  it.each([
    ['/sandbox/webhooks', {}],
    ['/sandbox/webhooks', { paused: 'yes' }],
    ['/sandbox/webhooks/redeliver', { order: 'sideways' }],
  ])('are left as they are by a wrong request: POST %s %j', async (path, body) => {
    expect((await provider.http.post(path, body)).status).toBe(400);
  });

  it('wait without a receiver, and go to one that is named later', async () => {
    const own = await TestSandbox.start();
    try {
      const { id } = await own.stripe.paymentIntents.create(card());
      expect((await own.http.post('/sandbox/webhooks/redeliver', undefined)).status).toBe(409);
      own.sandbox.sendWebhooksTo({ url: receiver.url, secret: SECRET });
      await arrived(1);

      expect(verified(receiver.deliveries[0]!).data.object).toMatchObject({ id });
    } finally {
      await own.stop();
    }
  });
});
