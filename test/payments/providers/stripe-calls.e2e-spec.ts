import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import Stripe from 'stripe';
import { ScriptedServer } from '../../support/scripted-server.js';
import {
  CHARGE,
  CREATED,
  GIVE_BACK,
  OPERATION,
  PAYMENT,
  paymentIntent,
  REFUND,
  refund,
  stripeAt,
  TENANT,
} from './movements.js';

let server: ScriptedServer;

beforeAll(async () => {
  server = await ScriptedServer.start();
});
afterEach(() => server.forget());
afterAll(() => server.stop());

async function chargeAnswered(status: number, body: unknown, order = CHARGE) {
  server.answer(status, body);
  const answer = await stripeAt(server.url).charge(order);
  expect(server.requests).toHaveLength(1);
  return answer;
}

async function refundAnswered(status: number, body: unknown, order = GIVE_BACK) {
  server.answer(status, body);
  const answer = await stripeAt(server.url).refund(order);
  expect(server.requests).toHaveLength(1);
  return answer;
}

const failure = (error: object): object => ({ error: { message: 'Stripe says why', ...error } });
const badRequest = (error: object): object => failure({ type: 'invalid_request_error', ...error });
const declinedIntent = (changes = {}): object =>
  paymentIntent({
    status: 'requires_payment_method',
    last_payment_error: { type: 'card_error', code: 'card_declined', decline_code: 'insufficient_funds' },
    ...changes,
  });
const cardError = (changes = {}): object =>
  failure({ type: 'card_error', code: 'card_declined', decline_code: 'insufficient_funds', ...changes });

describe('what goes over the wire', () => {
  it('is a confirmed payment intent that needs nobody there, under the child key', async () => {
    await chargeAnswered(200, paymentIntent());

    const [{ method, path, body, headers }] = server.requests as [(typeof server.requests)[0]];
    expect([method, path]).toEqual(['POST', '/v1/payment_intents']);
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({
      amount: '1999',
      currency: 'eur',
      payment_method: 'pm_card_visa',
      confirm: 'true',
      error_on_requires_action: 'true',
      'automatic_payment_methods[enabled]': 'true',
      'automatic_payment_methods[allow_redirects]': 'never',
      'metadata[tenant]': TENANT,
      'metadata[payment]': PAYMENT,
      'metadata[operation]': OPERATION,
    });
    expect(headers).toMatchObject({
      authorization: 'Bearer sk_test_1',
      'content-type': 'application/x-www-form-urlencoded',
      'idempotency-key': CHARGE.key,
      'stripe-version': Stripe.API_VERSION,
    });
  });

  it('is a refund of the payment intent, under its own child key', async () => {
    await refundAnswered(200, refund());

    const [{ path, body, headers }] = server.requests as [(typeof server.requests)[0]];
    expect(path).toBe('/v1/refunds');
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({
      payment_intent: 'pi_1',
      amount: '500',
      'metadata[tenant]': TENANT,
      'metadata[payment]': PAYMENT,
      'metadata[refund]': REFUND,
      'metadata[operation]': OPERATION,
    });
    expect(headers['idempotency-key']).toBe(GIVE_BACK.key);
  });

  it('is the same again when the same is asked again, and tells nothing of earlier calls', async () => {
    server.answer(200, paymentIntent(), { 'Request-Id': 'req_1' });
    const provider = stripeAt(server.url);
    await provider.charge(CHARGE);
    await provider.charge(CHARGE);

    const [first, second] = server.requests;
    expect(second).toEqual(first);
    expect(second!.headers).not.toHaveProperty('x-stripe-client-telemetry');
  });

  it('is nothing without a key: the SDK would make one up', async () => {
    const provider = stripeAt(server.url);

    expect(await provider.charge({ ...CHARGE, key: '' })).toMatchObject({ kind: 'fault', code: 'key_missing' });
    expect(await provider.refund({ ...GIVE_BACK, key: '' })).toMatchObject({ kind: 'fault', code: 'key_missing' });
    expect(server.requests).toEqual([]);
  });
});

describe('a payment intent in the answer', () => {
  const money = { reference: 'pi_1', amount: 1_999, currency: 'EUR', createdAt: new Date(CREATED * 1_000) };

  it.each([
    [{ status: 'succeeded' }, { state: 'succeeded' }],
    [{ status: 'processing' }, { state: 'pending' }],
    [{ status: 'requires_capture' }, { state: 'pending' }],
    [{ status: 'requires_action' }, { state: 'pending' }],
    [{ status: 'requires_confirmation' }, { state: 'pending' }],
    [{ status: 'requires_payment_method' }, { state: 'pending' }],
    [{ status: 'a_later_invention' }, { state: 'pending' }],
    [declinedIntent(), { state: 'declined', code: 'insufficient_funds' }],
    [declinedIntent({ last_payment_error: { code: 'expired_card' } }), { state: 'declined', code: 'expired_card' }],
    [{ status: 'canceled' }, { state: 'failed', code: 'canceled' }],
    [
      { status: 'canceled', cancellation_reason: 'fraudulent' },
      { state: 'failed', code: 'fraudulent' },
    ],
  ])('is read: %j', async (changes, outcome) => {
    const effect = { ...money, ...outcome };
    expect(await chargeAnswered(200, paymentIntent({ ...changes }))).toEqual({ kind: 'effect', effect });
  });

  it.each([
    ['has another amount', paymentIntent({ amount: 1_998 })],
    ['has another currency', paymentIntent({ currency: 'usd' })],
    ['is of another payment', paymentIntent({ metadata: { tenant: TENANT, payment: OPERATION } })],
    ['is of another tenant', paymentIntent({ metadata: { tenant: OPERATION, payment: PAYMENT } })],
    ['is of nobody', paymentIntent({ metadata: {} })],
    ['is another object', paymentIntent({ object: 'charge' })],
    ['has no id', paymentIntent({ id: '' })],
    ['has no time', paymentIntent({ created: undefined })],
    ['has an amount in words', paymentIntent({ amount: '1999' })],
    ['is not there', {}],
    ['is null', 'null'],
    ['is a number', '5'],
    ['is a list', [paymentIntent()]],
    ['is a web page', '<html>Welcome to the guest network</html>'],
    ['is cut short', JSON.stringify(paymentIntent()).slice(0, -1)],
    ['is empty', ''],
    ['is an error in spite of its status', failure({ type: 'api_error' })],
  ])('that %s is no success, and no proof that nothing has happened', async (_what, body) => {
    expect(await chargeAnswered(200, body)).toMatchObject({ kind: 'unknown' });
  });
});

describe('a refund in the answer', () => {
  const money = { reference: 're_1', amount: 500, currency: 'EUR', createdAt: new Date(CREATED * 1_000) };

  it.each([
    [{ status: 'succeeded' }, { state: 'succeeded' }],
    [{ status: 'pending' }, { state: 'pending' }],
    [{ status: 'requires_action' }, { state: 'pending' }],
    [{ status: null }, { state: 'pending' }],
    [
      { status: 'failed', failure_reason: 'lost_or_stolen_card' },
      { state: 'failed', code: 'lost_or_stolen_card' },
    ],
    [{ status: 'failed' }, { state: 'failed', code: 'failed' }],
    [{ status: 'canceled' }, { state: 'failed', code: 'canceled' }],
  ])('is read: %j', async (changes, outcome) => {
    const effect = { ...money, ...outcome };
    expect(await refundAnswered(200, refund(changes))).toEqual({ kind: 'effect', effect });
  });

  it.each([
    ['of another amount', refund({ amount: 501 })],
    ['in another currency', refund({ currency: 'usd' })],
    ['of another charge', refund({ payment_intent: 'pi_2' })],
    ['of another refund', refund({ metadata: { tenant: TENANT, payment: PAYMENT, refund: OPERATION } })],
    ['that is a payment intent', paymentIntent({ amount: 500 })],
  ])('%s is no success', async (_what, body) => {
    expect(await refundAnswered(200, body)).toMatchObject({ kind: 'unknown' });
  });
});

describe.each([
  ['a charge', chargeAnswered],
  ['a refund', refundAnswered],
])('%s', (_kind, answered) => {
  it.each([
    ['too many requests', 429, failure({ type: 'rate_limit_error' })],
    ['a lock that another request holds', 429, badRequest({ code: 'lock_timeout' })],
    ['too many requests, says a proxy', 429, '<html></html>'],
  ])('has not happened: %s', async (_why, status, body) => {
    expect(await answered(status, body)).toMatchObject({ kind: 'not-happened' });
  });

  it.each([
    ['an error of Stripe', 500, failure({ type: 'api_error' })],
    ['an error without a body', 500, ''],
    ['an error in a page', 502, '<html>Bad gateway</html>'],
    ['no service', 503, {}],
    ['no answer behind a proxy', 504, 'null'],
    ['a status nobody knows', 599, '[]'],
    ['a card error with the status of a fault', 500, cardError({ payment_intent: declinedIntent() })],
    ['still running', 409, badRequest({ type: 'idempotency_error', code: 'idempotency_key_in_use' })],
    ['a proxy without patience', 408, ''],
    ['a redirect', 302, paymentIntent()],
    ['no content', 204, ''],
  ])('may have happened: %s', async (_why, status, body) => {
    expect(await answered(status, body)).toMatchObject({ kind: 'unknown' });
  });

  it.each([
    ['parameter_invalid_integer', badRequest({ param: 'amount', code: 'parameter_invalid_integer' })],
    ['amount_too_small', badRequest({ param: 'amount', code: 'amount_too_small' })],
    ['amount_too_large', badRequest({ code: 'amount_too_large' })],
    ['resource_missing', badRequest({ param: 'payment_method', code: 'resource_missing' })],
    ['invalid_currency', badRequest({ param: 'currency' })],
    ['charge_already_refunded', badRequest({ code: 'charge_already_refunded' })],
    ['invalid_amount', badRequest({ param: 'amount' })],
  ])('is refused for what the client sent: %s', async (code, body) => {
    expect(await answered(400, body)).toEqual({ kind: 'refused', code });
  });

  it.each([
    ['authentication', 401, badRequest({})],
    ['authentication', 401, '<html></html>'],
    ['permission', 403, failure({ type: 'invalid_request_error', code: 'platform_account_required' })],
    ['idempotency_error', 400, failure({ type: 'idempotency_error' })],
    ['idempotency_error', 400, failure({ type: 'idempotency_error', param: 'amount' })],
    ['parameter_unknown', 400, badRequest({ param: 'confirm_method', code: 'parameter_unknown' })],
    ['resource_missing', 400, badRequest({ param: 'payment_intent', code: 'resource_missing' })],
    ['resource_missing', 404, badRequest({ param: 'payment_method', code: 'resource_missing' })],
    ['balance_insufficient', 400, badRequest({ code: 'balance_insufficient' })],
    ['invalid_request_error', 400, badRequest({})],
    ['http_400', 400, {}],
    ['http_404', 404, '<html></html>'],
    ['http_402', 402, '<html>Your plan has ended</html>'],
    ['card_declined', 402, failure({ type: 'api_error', code: 'card_declined' })],
    ['http_400', 400, failure({ type: 7, code: { no: 'word' }, param: ['amount'] })],
  ])('meets a fault of ours: %s, status %d', async (code, status, body) => {
    expect(await answered(status, body)).toEqual({ kind: 'fault', code, reason: expect.any(String) });
  });
});

describe('a card that is declined', () => {
  it('leaves its payment intent at Stripe', async () => {
    const answer = await chargeAnswered(402, cardError({ payment_intent: declinedIntent() }));

    const money = { reference: 'pi_1', amount: 1_999, currency: 'EUR', createdAt: new Date(CREATED * 1_000) };
    expect(answer).toEqual({ kind: 'effect', effect: { ...money, state: 'declined', code: 'insufficient_funds' } });
  });

  it('is declined for needing somebody there', async () => {
    const error = { code: 'authentication_required', decline_code: 'authentication_required' };
    const intent = declinedIntent({ status: 'requires_action', last_payment_error: null });
    const answer = await chargeAnswered(402, cardError({ ...error, payment_intent: intent }));

    expect(answer).toMatchObject({ effect: { state: 'declined', code: 'authentication_required' } });
  });

  it('is refused where no payment intent was made', async () => {
    expect(await chargeAnswered(402, cardError())).toEqual({ kind: 'refused', code: 'insufficient_funds' });
    server.forget();
    expect(await refundAnswered(402, cardError())).toEqual({ kind: 'refused', code: 'insufficient_funds' });
  });

  it.each([
    ['is another one', { id: 'pi_2', metadata: {} }],
    ['has taken the money', { status: 'succeeded' }],
    ['takes the money now', { status: 'processing' }],
    ['holds the money', { status: 'requires_capture' }],
    ['cannot be read', { amount: null }],
  ])('is not believed where the payment intent %s', async (_what, changes) => {
    const answer = await chargeAnswered(402, cardError({ payment_intent: declinedIntent(changes) }));

    expect(answer).toMatchObject({ kind: 'unknown' });
  });
});
