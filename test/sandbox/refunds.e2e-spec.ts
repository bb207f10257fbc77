import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type Stripe from 'stripe';
import { TestSandbox } from '../support/test-sandbox.js';
import { waitFor } from '../support/wait-for.js';
import { card, refusalOf } from './charges.js';

let provider: TestSandbox;
let stripe: Stripe;
beforeAll(async () => {
  provider = await TestSandbox.start({ refundSettleMs: 150 });
  stripe = provider.stripe;
});
afterAll(async () => {
  expect(provider.errors).toEqual([]);
  await provider.stop();
});

const paid = (amount = 1_000, method?: string) => stripe.paymentIntents.create(card(amount, method));
const statusOf = async (id: string) => (await stripe.refunds.retrieve(id)).status;

describe('a refund', () => {
  it('gives a part back, then all that is left, and can be retrieved', async () => {
    const intent = await paid();
    const part = await stripe.refunds.create({
      payment_intent: intent.id,
      amount: 300,
      reason: 'duplicate',
      metadata: { refund: 'r1' },
    });
    const rest = await stripe.refunds.create({ charge: intent.latest_charge as string });

    expect(part).toMatchObject({
      object: 'refund',
      amount: 300,
      currency: 'eur',
      status: 'succeeded',
      reason: 'duplicate',
      payment_intent: intent.id,
      charge: intent.latest_charge,
      metadata: { refund: 'r1' },
    });
    expect(part.id).toMatch(/^re_\w{20,}$/);
    expect([rest.amount, rest.reason, rest.metadata]).toEqual([700, null, {}]);
    expect({ ...(await stripe.refunds.retrieve(part.id)) }).toEqual({ ...part, lastResponse: undefined });
    const { effects } = await provider.ledger();
    expect(
      effects.slice(-2).map(({ operation, reference, amount, currency }) => [operation, reference, amount, currency]),
    ).toEqual([
      ['refunds.create', part.id, 300, 'EUR'],
      ['refunds.create', rest.id, 700, 'EUR'],
    ]);
    const charge = await stripe.charges.retrieve(intent.latest_charge as string);
    expect(charge).toMatchObject({ amount_refunded: 1_000, refunded: true, payment_intent: intent.id });
  });

  it('never gives back more than was paid, however many are asked for at once', async () => {
    const intent = await paid(1_000);
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, () =>
        stripe.refunds.create({ payment_intent: intent.id, amount: 300 }).then(
          ({ amount }) => amount,
          (error: Stripe.errors.StripeError) => error.param,
        ),
      ),
    );

    expect(outcomes.filter((outcome) => outcome === 300).length).toBe(3);
    expect(outcomes.filter((outcome) => outcome === 'amount').length).toBe(17);
    const { data } = await stripe.refunds.list({ payment_intent: intent.id });
    expect(data.map(({ amount }) => amount)).toEqual([300, 300, 300]);
  });

  it('is refused when nothing is left, when too much is asked for, and when nothing was paid', async () => {
    const intent = await paid();
    const declined = await refusalOf(paid(1_000, 'pm_card_visa_chargeDeclined'));
    const waiting = await stripe.paymentIntents.create({ ...card(), confirm: false });
    const refund = (parameters: object) => refusalOf(stripe.refunds.create(parameters));

    expect(await refund({ payment_intent: intent.id, amount: 1_001 })).toMatchObject({
      statusCode: 400,
      param: 'amount',
    });
    await stripe.refunds.create({ payment_intent: intent.id });
    expect(await refund({ payment_intent: intent.id, amount: 1 })).toMatchObject({
      statusCode: 400,
      code: 'charge_already_refunded',
    });
    for (const id of [declined.payment_intent!.id, waiting.id]) {
      expect(await refund({ payment_intent: id })).toMatchObject({ statusCode: 400, param: 'payment_intent' });
    }
  });

  it.each([
    [{}, { code: 'parameter_missing' }],
    [{ payment_intent: 'pi_nothing' }, { code: 'resource_missing', param: 'payment_intent' }],
    [{ charge: 'ch_nothing' }, { code: 'resource_missing', param: 'charge' }],
    [{ payment_intent: 'pi_nothing', charge: 'ch_nothing' }, { code: 'parameters_exclusive' }],
    [
      { payment_intent: 'pi_nothing', amount: 0 },
      { code: 'parameter_invalid_integer', param: 'amount' },
    ],
    [
      { payment_intent: 'pi_nothing', amount: 'all' },
      { code: 'parameter_invalid_integer', param: 'amount' },
    ],
    [{ payment_intent: 'pi_nothing', reason: 'because' }, { param: 'reason' }],
    [{ payment_intent: { id: 'pi_nothing' } }, { param: 'payment_intent' }],
    [
      { payment_intent: 'pi_nothing', currency: 'eur' },
      { code: 'parameter_unknown', param: 'currency' },
    ],
  ])('is refused when it is asked for wrongly: %j', async (parameters, error) => {
    const before = await provider.database.count('sandbox.refunds');
    const refusal = await refusalOf(stripe.refunds.create(parameters as Stripe.RefundCreateParams));

    expect(refusal).toMatchObject({ type: 'StripeInvalidRequestError', statusCode: 400, ...error });
    expect(await provider.database.count('sandbox.refunds')).toBe(before);
  });

  it('is 404 when there is none by that id', async () => {
    expect(await refusalOf(stripe.refunds.retrieve('re_nothing'))).toMatchObject({
      statusCode: 404,
      code: 'resource_missing',
    });
  });
});

describe('a refund whose outcome comes later', () => {
  it('of pm_card_pendingRefund is pending, then succeeds', async () => {
    const intent = await paid(1_000, 'pm_card_pendingRefund');
    const refund = await stripe.refunds.create({ payment_intent: intent.id });

    expect(refund.status).toBe('pending');
    await waitFor(async () => (await statusOf(refund.id)) === 'succeeded', { description: 'the refund to succeed' });
  });

  it('of pm_card_refundFail succeeds, then fails, and its money can be given back again', async () => {
    const intent = await paid(1_000, 'pm_card_refundFail');
    const refund = await stripe.refunds.create({ payment_intent: intent.id });

    expect(refund.status).toBe('succeeded');
    await waitFor(async () => (await statusOf(refund.id)) === 'failed', { description: 'the refund to fail' });
    expect((await stripe.refunds.retrieve(refund.id)).failure_reason).toEqual(expect.any(String));
    expect((await stripe.refunds.create({ payment_intent: intent.id })).amount).toBe(1_000);
  });

  it('fails on demand, once, and stays failed', async () => {
    const intent = await paid();
    const refund = await stripe.refunds.create({ payment_intent: intent.id });
    const fail = () => provider.http.post(`/sandbox/refunds/${refund.id}/fail`, undefined);
    const events = () =>
      provider.database.count('sandbox.events', `type = 'refund.failed' AND payload LIKE $1`, [`%${refund.id}%`]);

    const answers = await Promise.all([fail(), fail(), fail()]);
    expect(answers.map(({ status, body }) => [status, body.status])).toEqual(Array(3).fill([200, 'failed']));
    expect(await events()).toBe(1);
    const late = await provider.http.post(`/sandbox/refunds/${refund.id}/succeed`, undefined);
    expect([late.body.status, await statusOf(refund.id)]).toEqual(['failed', 'failed']);
    expect((await provider.http.post('/sandbox/refunds/re_nothing/fail', undefined)).status).toBe(404);
  });
});

describe('a refund by hand in the dashboard', () => {
  it('is one like any other, but carries nothing of its caller', async () => {
    const intent = await stripe.paymentIntents.create({ ...card(), metadata: { tenant: 'acme' } });
    const byHand = await provider.http.post(`/sandbox/payment_intents/${intent.id}/refund`, { amount: 250 });
    const rest = await provider.http.post(`/sandbox/payment_intents/${intent.id}/refund`, undefined);

    expect([byHand.status, byHand.body.amount, byHand.body.metadata]).toEqual([200, 250, {}]);
    expect(rest.body.amount).toBe(750);
    expect((await provider.ledger()).effects.slice(-1)).toEqual([
      expect.objectContaining({ operation: 'refunds.create', reference: rest.body.id, idempotencyKey: null }),
    ]);
    const again = await provider.http.post(`/sandbox/payment_intents/${intent.id}/refund`, { amount: 1 });
    const unknown = await provider.http.post('/sandbox/payment_intents/pi_nothing/refund', {});
    const wrong = await provider.http.post(`/sandbox/payment_intents/${intent.id}/refund`, { amount: 'all' });
    expect([again.status, unknown.status, wrong.status]).toEqual([400, 400, 400]);
  });
});
