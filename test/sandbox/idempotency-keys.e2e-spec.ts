import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import type Stripe from 'stripe';
import { TestSandbox } from '../support/test-sandbox.js';
import { waitFor } from '../support/wait-for.js';
import { card, refusalOf } from './charges.js';

let provider: TestSandbox;
let stripe: Stripe;
beforeAll(async () => {
  provider = await TestSandbox.start();
  stripe = provider.stripe;
});
afterAll(async () => {
  expect(provider.errors).toEqual([]);
  await provider.stop();
});

/** What happened under a key: how many movements of money, and what its calls were answered. */
async function under(idempotencyKey: string) {
  const { effects, calls } = await provider.ledger();
  const ofKey = <T extends { idempotencyKey: string | null }>(all: T[]) =>
    all.filter((one) => one.idempotencyKey === idempotencyKey);
  return { effects: ofKey(effects).length, statuses: ofKey(calls).map(({ status }) => status) };
}

describe('the same key again', () => {
  it('is answered with the same bytes, marked as a replay, and moves no more money', async () => {
    const idempotencyKey = randomUUID();
    const first = await stripe.paymentIntents.create({ ...card(), metadata: { a: '1', b: '2' } }, { idempotencyKey });
    const second = await stripe.paymentIntents.create({ metadata: { b: '2', a: '1' }, ...card() }, { idempotencyKey });

    expect({ ...second }).toEqual({ ...first });
    expect(first.lastResponse.headers['idempotent-replayed']).toBeUndefined();
    expect(second.lastResponse.headers['idempotent-replayed']).toBe('true');
    expect(second.lastResponse.headers['original-request']).toBe(first.lastResponse.requestId);
    expect(second.lastResponse.requestId).not.toBe(first.lastResponse.requestId);
    expect(second.lastResponse.idempotencyKey).toBe(idempotencyKey);
    expect(await under(idempotencyKey)).toEqual({ effects: 1, statuses: [200, 200] });
  });

  it('repeats a decline, and a refusal that came after execution began', async () => {
    for (const [paymentMethod, status] of [
      ['pm_card_visa_chargeDeclined', 402],
      ['pm_nothing', 400],
    ] as const) {
      const idempotencyKey = randomUUID();
      const charge = () => stripe.paymentIntents.create(card(1_000, paymentMethod), { idempotencyKey });
      const [first, second] = [await refusalOf(charge()), await refusalOf(charge())];

      expect(second.payment_intent?.id).toBe(first.payment_intent?.id);
      expect([first.headers, second.headers].map((headers) => headers?.['idempotent-replayed'])).toEqual([
        undefined,
        'true',
      ]);
      expect(await under(idempotencyKey)).toEqual({ effects: 0, statuses: [status, status] });
    }
  });

  it('is refused with other parameters, or at another endpoint, whatever they are', async () => {
    const idempotencyKey = randomUUID();
    const { id } = await stripe.paymentIntents.create(card(), { idempotencyKey });
    const others = [
      () => stripe.paymentIntents.create(card(1_001), { idempotencyKey }),
      () => stripe.paymentIntents.create({ ...card(), metadata: { a: '1' } }, { idempotencyKey }),
      () => stripe.refunds.create({ payment_intent: id }, { idempotencyKey }),
    ];
    const messages = [];
    for (const other of others) {
      const refusal = await refusalOf(other());
      expect(refusal).toMatchObject({ type: 'StripeIdempotencyError', statusCode: 400 });
      messages.push(/same (parameters|endpoint)/.exec(refusal.message)?.[1]);
    }
    expect(messages).toEqual(['parameters', 'parameters', 'endpoint']);
    expect(await under(idempotencyKey)).toEqual({ effects: 1, statuses: [200, 400, 400, 400] });
  });

  it('is 409 while the first still runs, and a replay afterwards', async () => {
    const idempotencyKey = randomUUID();
    const charge = () => stripe.paymentIntents.create(card(), { idempotencyKey });
    await provider.arm('payment_intents.create', 'delay', { delayMs: 700 });
    const slow = charge();
    await waitFor(async () => (await under(idempotencyKey)).effects === 1, { description: 'the charge' });

    expect(await refusalOf(charge())).toMatchObject({
      type: 'StripeAPIError',
      rawType: 'idempotency_error',
      statusCode: 409,
      code: 'idempotency_key_in_use',
    });
    const { id } = await slow;
    expect((await charge()).id).toBe(id);
    expect((await under(idempotencyKey)).effects).toBe(1);
  });

  it('fifty times at once moves money once; each call is answered with it or told to come back', async () => {
    const idempotencyKey = randomUUID();
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, () =>
        stripe.paymentIntents.create(card(), { idempotencyKey }).then(
          ({ id }) => id,
          ({ statusCode }: Stripe.errors.StripeError) => statusCode,
        ),
      ),
    );

    const ids = new Set(outcomes.filter((outcome) => typeof outcome === 'string'));
    expect(ids.size).toBe(1);
    expect(outcomes.filter((outcome) => outcome !== 409 && typeof outcome !== 'string')).toEqual([]);
    const { effects, statuses } = await under(idempotencyKey);
    expect([effects, statuses.length]).toEqual([1, 50]);
  });

  it('is a new request once 24 hours are over, by the clock of the database', async () => {
    const idempotencyKey = randomUUID();
    const age = (hours: number) =>
      provider.database.query(
        `UPDATE sandbox.idempotency_keys SET created_at = now() - $2 * interval '1 hour' WHERE key = $1`,
        [idempotencyKey, hours],
      );
    const first = await stripe.paymentIntents.create(card(), { idempotencyKey });
    await age(23.9);
    expect((await stripe.paymentIntents.create(card(), { idempotencyKey })).id).toBe(first.id);
    await age(24.1);
    const other = await stripe.paymentIntents.create(card(2_000), { idempotencyKey });
    const again = await stripe.paymentIntents.create(card(2_000), { idempotencyKey });

    expect([other.id === first.id, again.id === other.id]).toEqual([false, true]);
    expect((await under(idempotencyKey)).effects).toBe(2);
  });

  it('is free again after a refusal of its parameters', async () => {
    const idempotencyKey = randomUUID();
    await refusalOf(stripe.paymentIntents.create(card(1), { idempotencyKey }));
    await stripe.paymentIntents.create(card(), { idempotencyKey });

    expect(await under(idempotencyKey)).toEqual({ effects: 1, statuses: [400, 200] });
  });
});

describe('a key', () => {
  it('that is empty or longer than 255 characters is refused', async () => {
    const send = (key: string) =>
      provider.http.send('POST', '/v1/payment_intents', {
        headers: {
          Authorization: 'Bearer sk_test_x',
          'Content-Type': 'application/x-www-form-urlencoded',
          'Idempotency-Key': key,
        },
        body: 'amount=1000&currency=eur&payment_method=pm_card_visa&confirm=true',
      });
    const answers = [await send(''), await send('k'.repeat(256)), await send('k'.repeat(255)), await send('ké')];

    expect(answers.map(({ status }) => status)).toEqual([400, 400, 200, 200]);
  });

  it('serves refunds too', async () => {
    const intent = await stripe.paymentIntents.create(card());
    const idempotencyKey = randomUUID();
    const refund = () => stripe.refunds.create({ payment_intent: intent.id, amount: 400 }, { idempotencyKey });
    const [first, second] = [await refund(), await refund()];

    expect(second.id).toBe(first.id);
    expect(await under(idempotencyKey)).toEqual({ effects: 1, statuses: [200, 200] });
  });
});
