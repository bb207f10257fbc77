import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import Stripe from 'stripe';
import type { ApiResponse } from '../support/api-client.js';
import { waitFor } from '../support/wait-for.js';
import { CARD, DECLINED_CARD, PayingApp } from './paying.js';

const SECRET = 'whsec_sandbox';
const stripe = new Stripe('sk_test_any');

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '500ms' })));
afterAll(() => app.stop());
beforeEach(() => app.clear());

/** Sends an event as Stripe does: with a signature over its bytes and no API key. */
function deliver(event: unknown, { secret = SECRET, headers = {} } = {}): Promise<ApiResponse> {
  const payload = typeof event === 'string' ? event : JSON.stringify(event);
  const signature = stripe.webhooks.generateTestHeaderString({ payload, secret });
  return app.as({ key: 'none' }).send('POST', '/v1/webhooks/stripe', {
    body: payload,
    headers: { 'Stripe-Signature': signature, Authorization: '', ...headers },
  });
}

/** The event that tells of a payment intent as the sandbox shows it. */
async function eventOf(type: string, paymentIntent: string, id = `evt_${randomUUID()}`): Promise<unknown> {
  const object = await stripeAt().paymentIntents.retrieve(paymentIntent);
  return { id, object: 'event', type, created: Math.floor(Date.now() / 1000), data: { object } };
}

function stripeAt(): Stripe {
  const { hostname: host, port } = new URL(app.sandbox.url);
  return new Stripe('sk_test_any', { host, port, protocol: 'http', maxNetworkRetries: 0 });
}

async function intentOf(orderId: string): Promise<string> {
  const { data } = await stripeAt().paymentIntents.list({ limit: 100 });
  const [payment] = await app.database.query<{ id: string }>('SELECT id FROM payments WHERE order_id = $1', [orderId]);
  return data.find((intent) => intent.metadata.payment === payment!.id)!.id;
}

describe('a webhook', () => {
  it('settles a payment whose reply was lost; the waiting request then gets the answer (K15)', async () => {
    const orderId = await app.order();
    const key = randomUUID();
    await app.sandbox.arm('payment_intents.create', 'drop-response');
    expect((await app.pay(orderId, CARD, key)).status).toBe(503);
    const event = await eventOf('payment_intent.succeeded', await intentOf(orderId));

    const answers = await Promise.all(Array.from({ length: 10 }, () => deliver(event)));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 10 }, () => 204));
    expect(await app.counts()).toMatchObject({ payments: 1, movements: 1, events: 1, effects: 1 });
    expect(await app.database.count('processed_messages')).toBe(1);

    const answer = await app.pay(orderId, CARD, key);
    expect([answer.status, answer.body.status]).toEqual([201, 'succeeded']);
    expect(await app.counts()).toMatchObject({ payments: 1, movements: 1, events: 1, effects: 1 });
  });

  it('tells the same under another id: already there, and no second event', async () => {
    const { orderId } = await app.paid();
    const intent = await intentOf(orderId);
    for (let i = 0; i < 3; i++) {
      expect((await deliver(await eventOf('payment_intent.succeeded', intent))).status).toBe(204);
    }
    expect(await app.counts()).toMatchObject({ movements: 1, events: 1 });
  });

  it('that comes late or out of order changes nothing that is settled', async () => {
    const { orderId, id } = await app.paid();
    const object = await stripeAt().paymentIntents.retrieve(await intentOf(orderId));
    for (const [type, status] of [
      ['payment_intent.payment_failed', 'requires_payment_method'],
      ['payment_intent.processing', 'processing'],
    ] as const) {
      const event = { id: `evt_${type}`, object: 'event', type, data: { object: { ...object, status } } };
      expect((await deliver(event)).status).toBe(204);
    }
    expect((await app.as().get(`/v1/payments/${id}`)).body.status).toBe('succeeded');
    expect(await app.counts()).toMatchObject({ movements: 1, events: 1 });
  });

  it('of a payment that is not here is taken, changes nothing, and stands in the log', async () => {
    const { orderId } = await app.paid();
    const event = await eventOf('payment_intent.succeeded', await intentOf(orderId));
    const [{ id } = {}] = await app.database.query<{ id: string }>('SELECT id FROM payments');
    const elsewhere = randomUUID();
    const warned = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    expect((await deliver(JSON.stringify(event).replaceAll(id!, elsewhere))).status).toBe(204);

    expect(warned.mock.calls).toEqual([[expect.stringMatching(`^effect_without_payment: .* ${elsewhere}`)]]);
    warned.mockRestore();
    expect(await app.counts()).toMatchObject({ payments: 1, movements: 1, events: 1 });
  });

  it('of a refund that was made in the dashboard books it once', async () => {
    const { id, orderId } = await app.paid();
    await app.sandbox.send('POST', `/sandbox/payment_intents/${await intentOf(orderId)}/refund`, { amount: 200 });
    const [refund] = (await stripeAt().refunds.list({ limit: 1 })).data;
    for (const type of ['refund.created', 'refund.updated', 'charge.refund.updated']) {
      const event = { id: `evt_${type}`, object: 'event', type, data: { object: refund } };
      expect((await deliver(event)).status).toBe(204);
    }
    expect((await app.as().get(`/v1/payments/${id}`)).body).toMatchObject({ refundedAmount: 200 });
    expect((await app.as().get(`/v1/payments/${id}/refunds`)).body.data).toMatchObject([
      { amount: 200, status: 'succeeded', reference: null },
    ]);
    expect(await app.counts()).toMatchObject({ refunds: 1, movements: 2, events: 2, effects: 2 });
    expect((await app.as().get(`/v1/orders/${orderId}`)).body.status).toBe('partially_refunded');
  });

  it('of a refund that failed after it had succeeded books the money back', async () => {
    const { id, orderId } = await app.paid();
    const refund = await app.refund(id, { amount: 300 });
    const [made] = (await stripeAt().refunds.list({ limit: 1 })).data;
    const event = {
      id: 'evt_failed',
      object: 'event',
      type: 'refund.failed',
      data: { object: { ...made, status: 'failed' } },
    };
    expect((await deliver(event)).status).toBe(204);
    expect((await deliver({ ...event, id: 'evt_failed_again' })).status).toBe(204);

    expect((await app.as().get(`/v1/refunds/${refund.body.id}`)).body).toMatchObject({ status: 'failed', version: 3 });
    expect((await app.as().get(`/v1/payments/${id}`)).body).toMatchObject({ refundedAmount: 0 });
    expect((await app.as().get(`/v1/orders/${orderId}`)).body.status).toBe('paid');
    const [sum] = await app.database.query<{ sum: string }>('SELECT sum(amount) FROM money_movements');
    expect(Number(sum!.sum)).toBe(900);
    expect(await app.eventsOf(refund.body.id as string)).toEqual(['refund.succeeded 2', 'refund.failed 3']);
  });

  it('arrives from the sandbox by itself, signed, before or after the reply', async () => {
    const told = await PayingApp.start({}, { webhooks: true });
    try {
      const { id } = await told.paid();
      const declined = await told.pay(await told.order(), DECLINED_CARD);
      expect(declined.status).toBe(402);
      await waitFor(async () => (await told.database.count('processed_messages')) >= 2, {
        description: 'both webhooks to be applied',
      });
      expect(await told.eventsOf(id)).toEqual(['payment.succeeded 2']);
      expect(await told.counts()).toMatchObject({ payments: 2, movements: 1, events: 2, effects: 1 });
    } finally {
      await told.stop();
    }
  });
});

describe('a webhook is refused', () => {
  it.each([
    ['with another secret', { secret: 'whsec_other' }],
    ['without a signature', { headers: { 'Stripe-Signature': '' } }],
    ['with a signature of other bytes', { headers: { 'Stripe-Signature': 't=1,v1=00' } }],
  ])('%s', async (_what, how) => {
    const { orderId } = await app.paid();
    const refused = await deliver(await eventOf('payment_intent.succeeded', await intentOf(orderId)), how);
    expect([refused.status, refused.body.code]).toEqual([400, 'bad-signature']);
    expect(await app.database.count('processed_messages')).toBe(0);
  });

  it('when it is over 1 MB', async () => {
    const answer = await deliver({ id: 'evt_1', padding: 'x'.repeat(1_000_001) });
    expect([answer.status, answer.body.code]).toEqual([413, 'payload-too-large']);
  });
});

describe('a webhook is acknowledged', () => {
  it.each([
    [
      'of an unknown type',
      { id: 'evt_1', object: 'event', type: 'invoice.paid', data: { object: { id: 'in_1', object: 'invoice' } } },
    ],
    [
      'of somebody else’s payment',
      {
        id: 'evt_2',
        object: 'event',
        type: 'payment_intent.succeeded',
        data: {
          object: {
            id: 'pi_1',
            object: 'payment_intent',
            amount: 1,
            currency: 'eur',
            status: 'succeeded',
            created: 1,
            metadata: {},
          },
        },
      },
    ],
    [
      'of a payment that no tenant of ours has',
      {
        id: 'evt_3',
        object: 'event',
        type: 'payment_intent.succeeded',
        data: {
          object: {
            id: 'pi_2',
            object: 'payment_intent',
            amount: 1,
            currency: 'eur',
            status: 'succeeded',
            created: 1,
            metadata: { tenant: randomUUID(), payment: randomUUID() },
          },
        },
      },
    ],
  ])('%s, and nothing is written', async (_what, event) => {
    expect((await deliver(event)).status).toBe(204);
    expect(await app.counts()).toMatchObject({ payments: 0, movements: 0, events: 0 });
  });
});
