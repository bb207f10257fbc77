import { createHmac } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type Stripe from 'stripe';
import { LookUpFailedError } from '../../../src/payments/providers/payment-provider.js';
import { createStripe } from '../../../src/payments/providers/stripe-client.js';
import { BadSignatureError, StripeWebhooks } from '../../../src/payments/providers/stripe-webhook.js';
import { ScriptedServer, sendJson } from '../../support/scripted-server.js';
import { CREATED, PAYMENT, paymentIntent, REFUND, refund, TENANT } from './movements.js';

const SECRET = 'whsec_test';

let server: ScriptedServer;
let stripe: Stripe;
let webhooks: StripeWebhooks;

beforeAll(async () => {
  server = await ScriptedServer.start();
});
beforeEach(() => {
  stripe = createStripe({ secretKey: 'sk_test_1', apiBase: server.url, timeout: 2_000 });
  webhooks = new StripeWebhooks(stripe, SECRET);
});
afterEach(() => server.forget());
afterAll(() => server.stop());

const event = (type: string, object: unknown): string =>
  JSON.stringify({ id: 'evt_1', object: 'event', type, created: CREATED, data: { object } });

function sign(payload: string, changes: { secret?: string; timestamp?: number } = {}): string {
  return stripe.webhooks.generateTestHeaderString({ payload, secret: SECRET, ...changes });
}

const received = (type: string, object: unknown) => {
  const payload = event(type, object);
  return webhooks.read(Buffer.from(payload), sign(payload));
};

const secondsAgo = (seconds: number): number => Math.floor(Date.now() / 1_000) - seconds;
const OURS = { tenantId: TENANT, paymentId: PAYMENT };

describe('a signature', () => {
  const payload = event('payment_intent.succeeded', paymentIntent());
  const accepted = (bytes: Buffer, header: string | undefined): Promise<boolean> =>
    webhooks.read(bytes, header).then(
      () => true,
      (error: unknown) => {
        expect(error).toBeInstanceOf(BadSignatureError);
        return false;
      },
    );

  it('is right for the bytes that were signed', async () => {
    expect(await accepted(Buffer.from(payload), sign(payload))).toBe(true);
    expect(await accepted(Buffer.from(payload), sign(payload, { timestamp: secondsAgo(290) }))).toBe(true);
  });

  it('is wrong for every other byte', async () => {
    const header = sign(payload);
    for (let position = 0; position < payload.length; position++) {
      const bytes = Buffer.from(payload);
      bytes[position]! ^= 1;
      expect(await accepted(bytes, header)).toBe(false);
    }
  });

  it.each<[string, (header: string) => [Buffer, string | undefined]]>([
    [
      'the same JSON, written otherwise',
      (header) => [Buffer.from(JSON.stringify(JSON.parse(payload), null, 2)), header],
    ],
    ['a byte order mark before it', (header) => [Buffer.from(`\uFEFF${payload}`), header]],
    ['one more line', (header) => [Buffer.from(`${payload}\n`), header]],
    ['no body', (header) => [Buffer.alloc(0), header]],
    ['no header', () => [Buffer.from(payload), undefined]],
    ['an empty header', () => [Buffer.from(payload), '']],
    ['a header of something else', () => [Buffer.from(payload), 'Bearer sk_test_1']],
    ['no time', (header) => [Buffer.from(payload), header.replace(/^t=\d+,/, '')]],
    ['another time than was signed', (header) => [Buffer.from(payload), header.replace(/^t=\d/, 't=2')]],
    ['no signature', (header) => [Buffer.from(payload), header.replace(/,v1=.*/, '')]],
    ['an empty signature', (header) => [Buffer.from(payload), header.replace(/v1=.*/, 'v1=')]],
    ['the right signature of an old scheme', (header) => [Buffer.from(payload), header.replace('v1=', 'v0=')]],
    ['half a signature', (header) => [Buffer.from(payload), header.slice(0, -32)]],
  ])('is wrong with %s', async (_what, changed) => {
    expect(await accepted(...changed(sign(payload)))).toBe(false);
  });

  it('is wrong where decoding would mend the bytes', async () => {
    const mended = event('payment_intent.succeeded', { note: '\uFFFD' });
    const bytes = Buffer.from(mended);
    const at = bytes.indexOf('\uFFFD');
    const other = Buffer.concat([bytes.subarray(0, at), Buffer.from([0xff]), bytes.subarray(at + 3)]);

    expect(await accepted(other, sign(mended))).toBe(false);
  });

  it('is wrong with another secret, or when it is more than five minutes old', async () => {
    expect(await accepted(Buffer.from(payload), sign(payload, { secret: 'whsec_other' }))).toBe(false);
    expect(await accepted(Buffer.from(payload), sign(payload, { timestamp: secondsAgo(310) }))).toBe(false);
  });

  it('is right when one of several is: Stripe signs with the old and the new secret while one is replaced', async () => {
    const timestamp = secondsAgo(1);
    const of = (secret: string) => createHmac('sha256', secret).update(`${timestamp}.${payload}`).digest('hex');

    const both = `t=${timestamp},v1=${of('whsec_old')},v1=${of(SECRET)},v0=${of('whsec_old')}`;
    expect(await accepted(Buffer.from(payload), both)).toBe(true);
    const neither = `t=${timestamp},v1=${of('whsec_old')},v1=${of('whsec_older')}`;
    expect(await accepted(Buffer.from(payload), neither)).toBe(false);
  });

  it.each([
    'no JSON',
    '',
    'null',
    '5',
    '[]',
    '{}',
    '{"id":"evt_1","type":"x"}',
    '{"id":7,"type":"x","data":{"object":{}}}',
  ])('does not make an event of %j', async (text) => {
    expect(await accepted(Buffer.from(text), sign(text))).toBe(false);
  });
});

describe('an event', () => {
  it.each([
    ['payment_intent.succeeded', { status: 'succeeded' }, { state: 'succeeded' }],
    ['payment_intent.processing', { status: 'processing' }, { state: 'pending' }],
    ['payment_intent.canceled', { status: 'canceled' }, { state: 'failed', code: 'canceled' }],
    [
      'payment_intent.payment_failed',
      { status: 'requires_payment_method', last_payment_error: { code: 'card_declined', decline_code: 'lost_card' } },
      { state: 'declined', code: 'lost_card' },
    ],
  ])('%s tells of the charge, without asking', async (type, changes, outcome) => {
    const money = { reference: 'pi_1', amount: 1_999, currency: 'EUR', createdAt: new Date(CREATED * 1_000) };

    expect(await received(type, paymentIntent(changes))).toEqual({
      messageId: 'evt_1',
      type,
      facts: [{ kind: 'charge', ...OURS, effect: { ...money, ...outcome } }],
    });
    expect(server.requests).toEqual([]);
  });

  it.each(['refund.created', 'refund.updated', 'refund.failed', 'charge.refund.updated'])(
    '%s tells of the refund, without asking',
    async (type) => {
      const { facts } = await received(type, refund({ status: 'failed', failure_reason: 'unknown' }));

      const effect = expect.objectContaining({ reference: 're_1', state: 'failed', code: 'unknown', amount: 500 });
      expect(facts).toEqual([{ kind: 'refund', ...OURS, chargeRef: 'pi_1', refundId: REFUND, effect }]);
      expect(server.requests).toEqual([]);
    },
  );

  it('of a refund from the dashboard belongs to whom its payment intent belongs', async () => {
    server.answer(200, paymentIntent());

    const { facts } = await received('refund.created', refund({ metadata: {} }));

    expect(facts).toEqual([
      { kind: 'refund', ...OURS, chargeRef: 'pi_1', effect: expect.objectContaining({ reference: 're_1' }) },
    ]);
    expect(server.requests.map(({ path }) => path)).toEqual(['/v1/payment_intents/pi_1']);
  });

  it('charge.refunded tells of all refunds of the charge, the oldest first', async () => {
    server.script = (response, { path }) => {
      const data = [refund({ id: 're_2', metadata: {} }), refund()];
      sendJson(response, 200, path === '/v1/refunds' ? { object: 'list', data, has_more: false } : paymentIntent());
    };
    const charge = { id: 'ch_1', object: 'charge', payment_intent: 'pi_1', metadata: {}, amount_refunded: 1_000 };

    const { facts } = await received('charge.refunded', charge);

    expect(facts).toEqual([
      {
        kind: 'refund',
        ...OURS,
        chargeRef: 'pi_1',
        refundId: REFUND,
        effect: expect.objectContaining({ reference: 're_1' }),
      },
      { kind: 'refund', ...OURS, chargeRef: 'pi_1', effect: expect.objectContaining({ reference: 're_2' }) },
    ]);
    expect(server.requests.map(({ path }) => path)).toEqual(['/v1/payment_intents/pi_1', '/v1/refunds']);
  });

  it.each<[string, unknown]>([
    ['customer.created', { id: 'cus_1', metadata: { tenant: TENANT, payment: PAYMENT } }],
    ['payment_intent.requires_action', paymentIntent({ status: 'requires_action' })],
    ['payment_intent.succeeded', paymentIntent({ metadata: {} })],
    ['payment_intent.succeeded', paymentIntent({ metadata: { tenant: 'acme', payment: '7' } })],
    ['payment_intent.succeeded', { id: 'pi_1', of: 'another version of the API, and not ours' }],
    ['refund.created', refund({ metadata: {}, payment_intent: null })],
    ['charge.refunded', { id: 'ch_1', object: 'charge', payment_intent: null, metadata: {} }],
  ])('%s that is not about anything of ours tells nothing, without asking: %j', async (type, object) => {
    expect(await received(type, object)).toEqual({ messageId: 'evt_1', type, facts: [] });
    expect(server.requests).toEqual([]);
  });

  it('of a payment intent that belongs to others, or is not there, tells nothing', async () => {
    const missing = { error: { type: 'invalid_request_error', code: 'resource_missing', param: 'intent' } };
    for (const [status, body] of [[200, paymentIntent({ metadata: {} })] as const, [404, missing] as const]) {
      server.answer(status, body);
      expect((await received('refund.created', refund({ metadata: {} }))).facts).toEqual([]);
      expect((await received('charge.refunded', { id: 'ch_1', payment_intent: 'pi_1' })).facts).toEqual([]);
    }
  });

  it.each([
    [500, { error: { type: 'api_error' } }],
    [401, { error: { type: 'invalid_request_error' } }],
    [404, '<html>No such site</html>'],
    [200, '<html></html>'],
    [200, {}],
  ])('must be sent again when it cannot be known whose it is: %d %j', async (status, body) => {
    server.answer(status, body);

    await expect(received('refund.created', refund({ metadata: {} }))).rejects.toThrow(LookUpFailedError);
    await expect(received('charge.refunded', { id: 'ch_1', payment_intent: 'pi_1' })).rejects.toThrow(
      LookUpFailedError,
    );
  });

  it('must be sent again when it is ours and cannot be read', async () => {
    const unreadable = paymentIntent({ amount: undefined });
    await expect(received('payment_intent.succeeded', unreadable)).rejects.toThrow(LookUpFailedError);
  });
});
