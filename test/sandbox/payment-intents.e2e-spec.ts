import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type Stripe from 'stripe';
import { stripeAt, TestSandbox } from '../support/test-sandbox.js';
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

const intentsIn = () => provider.database.count('sandbox.payment_intents');

describe('a PaymentIntent', () => {
  it('is paid when it is confirmed, shows what it was given, and can be retrieved', async () => {
    const created = await stripe.paymentIntents.create({
      ...card(1_250),
      currency: 'EUR',
      error_on_requires_action: true,
      description: 'tea & "cake"',
      metadata: { tenant: 'acme', 'with space': 'ä=&[]%' },
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
    });

    expect(created).toMatchObject({
      object: 'payment_intent',
      status: 'succeeded',
      amount: 1_250,
      amount_received: 1_250,
      currency: 'eur',
      livemode: false,
      description: 'tea & "cake"',
      metadata: { tenant: 'acme', 'with space': 'ä=&[]%' },
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
    });
    expect(created.id).toMatch(/^pi_\w{20,}$/);
    expect(created.latest_charge).toMatch(/^ch_\w{20,}$/);
    expect(Math.abs(created.created - Date.now() / 1_000)).toBeLessThan(60);
    expect(created.lastResponse.requestId).toMatch(/^req_/);
    const { lastResponse: _, ...plain } = created;
    expect({ ...(await stripe.paymentIntents.retrieve(created.id)) }).toEqual(plain);
    const { effects } = await provider.ledger();
    expect(effects.filter(({ reference }) => reference === created.id)).toEqual([
      expect.objectContaining({ operation: 'payment_intents.create', amount: 1_250, currency: 'EUR' }),
    ]);
  });

  it('keeps metadata of any name', async () => {
    const { body } = await provider.http.send('POST', '/v1/payment_intents', {
      headers: { Authorization: 'Bearer sk_test_x', 'Content-Type': 'application/x-www-form-urlencoded' },
      body: 'amount=1000&currency=eur&metadata[__proto__]=a&metadata[constructor]=b&metadata[x]=&metadata%5By%5D=c+d',
    });

    expect(Object.entries(body.metadata).sort()).toEqual([
      ['__proto__', 'a'],
      ['constructor', 'b'],
      ['y', 'c d'],
    ]);
  });

  it('waits without money having moved when it is not confirmed', async () => {
    const before = await provider.ledger();
    const bare = await stripe.paymentIntents.create({ amount: 1_000, currency: 'eur' });
    const ready = await stripe.paymentIntents.create({ ...card(), confirm: false });

    expect([bare.status, ready.status]).toEqual(['requires_payment_method', 'requires_confirmation']);
    expect([bare.amount_received, ready.amount_received]).toEqual([0, 0]);
    expect((await provider.ledger()).effects).toEqual(before.effects);
  });

  it.each([
    ['pm_card_visa_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_visa_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', 'expired_card'],
  ])('of %s is declined, and is there afterwards, unpaid', async (paymentMethod, code, declineCode) => {
    const before = await provider.ledger();
    const refusal = await refusalOf(
      stripe.paymentIntents.create({ ...card(), payment_method: paymentMethod, metadata: { order: '7' } }),
    );

    expect(refusal).toMatchObject({ type: 'StripeCardError', statusCode: 402, code, decline_code: declineCode });
    const intent = refusal.payment_intent!;
    expect(refusal.charge).toBe(intent.latest_charge);
    const retrieved = await stripe.paymentIntents.retrieve(intent.id);
    expect(retrieved).toMatchObject({
      status: 'requires_payment_method',
      amount_received: 0,
      metadata: { order: '7' },
      last_payment_error: { code, decline_code: declineCode },
    });
    const after = await provider.ledger();
    expect(after.effects).toEqual(before.effects);
    expect(after.calls.slice(before.calls.length).map(({ status }) => status)).toEqual([402]);
  });
});

describe('a PaymentIntent that cannot be', () => {
  const refused: [string, Record<string, unknown>, Record<string, unknown>][] = [
    ['no such method', { payment_method: 'pm_nothing' }, { code: 'resource_missing', param: 'payment_method' }],
    ['a method like toString', { payment_method: 'toString' }, { code: 'resource_missing', param: 'payment_method' }],
    ['too little', { amount: 49 }, { code: 'amount_too_small', param: 'amount' }],
    ['nothing', { amount: 0 }, { code: 'amount_too_small', param: 'amount' }],
    ['too much', { amount: 100_000_000 }, { code: 'amount_too_large', param: 'amount' }],
    ['less than nothing', { amount: -5 }, { code: 'parameter_invalid_integer', param: 'amount' }],
    ['a fraction', { amount: 10.5 }, { code: 'parameter_invalid_integer', param: 'amount' }],
    ['an exponent', { amount: '1e3' }, { code: 'parameter_invalid_integer', param: 'amount' }],
    ['digits without end', { amount: '9'.repeat(400) }, { code: 'parameter_invalid_integer', param: 'amount' }],
    ['an amount of parts', { amount: { a: 1 } }, { param: 'amount' }],
    ['no amount', { amount: undefined }, { code: 'parameter_missing', param: 'amount' }],
    ['an empty amount', { amount: '' }, { code: 'parameter_invalid_empty', param: 'amount' }],
    ['no currency', { currency: undefined }, { code: 'parameter_missing', param: 'currency' }],
    ['no such currency', { currency: 'zzz' }, { param: 'currency' }],
    ['no method to confirm', { payment_method: undefined }, { code: 'parameter_missing', param: 'payment_method' }],
    ['neither yes nor no', { confirm: 'perhaps' }, { param: 'confirm' }],
    ['an unknown parameter', { amout: 5 }, { code: 'parameter_unknown', param: 'amout' }],
    ['a parameter of every object', { constructor: 5 }, { code: 'parameter_unknown', param: 'constructor' }],
    ['metadata that is no map', { metadata: 'x' }, { param: 'metadata' }],
    ['metadata within metadata', { metadata: { a: { b: 'c' } } }, { param: 'metadata[a]' }],
    ['a long metadata value', { metadata: { a: 'x'.repeat(501) } }, { param: 'metadata[a]' }],
    ['NUL', { description: 'a\0b' }, { param: 'description' }],
    ['a capture later', { capture_method: 'manual' }, { param: 'capture_method' }],
    [
      'two ways to choose methods',
      { automatic_payment_methods: { enabled: true }, payment_method_types: ['card'] },
      { code: 'parameters_exclusive' },
    ],
  ];

  it.each(refused)('is refused: %s', async (_, different, error) => {
    const before = await intentsIn();
    const refusal = await refusalOf(stripe.paymentIntents.create({ ...card(), ...different }));

    expect(refusal).toMatchObject({ type: 'StripeInvalidRequestError', statusCode: 400, ...error });
    expect(refusal.message).not.toBe('');
    expect(await intentsIn()).toBe(before);
  });

  it('is 404 when it is asked for by an id that is none', async () => {
    for (const id of ['pi_nothing', 'a%00b', '%ff', '..']) {
      const { status, body } = await provider.http.get(`/v1/payment_intents/${id}`, {
        Authorization: 'Bearer sk_test_x',
      });
      expect([id, status, body.error.type]).toEqual([id, 404, 'invalid_request_error']);
    }
    const refusal = await refusalOf(stripe.paymentIntents.retrieve('pi_nothing'));
    expect(refusal).toMatchObject({ statusCode: 404, code: 'resource_missing', param: 'intent' });
  });

  it('is not made for a body of another kind or without a secret key', async () => {
    const before = await intentsIn();
    const send = (headers: Record<string, string>, body: string) =>
      provider.http.send('POST', '/v1/payment_intents', {
        headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
        body,
      });
    const form = 'amount=1000&currency=eur&payment_method=pm_card_visa&confirm=true';
    const key = { Authorization: 'Bearer sk_test_x' };
    const answers = await Promise.all([
      send({}, form),
      send({ Authorization: 'Bearer pk_test_x' }, form),
      send({ Authorization: 'Basic eDp5' }, form),
      send({ ...key, 'Content-Type': 'application/json' }, '{"amount":1000}'),
      send(key, `${form}&metadata=x&metadata[a]=1`),
      send(key, `${form}&a]b[=1`),
      send(key, `${form}&metadata[a][b][c][d][e][f]=1`),
      send(key, 'x'.repeat(1_100_000)),
    ]);

    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 400, 400, 400, 400, 413]);
    for (const { body } of answers) expect(body.error.message).toEqual(expect.any(String));
    expect(await intentsIn()).toBe(before);
    const basic = await send({ Authorization: `Basic ${Buffer.from('sk_test_x:').toString('base64')}` }, form);
    expect(basic.status).toBe(200);
  });

  it('tells the SDK of a key that is none', async () => {
    const refusal = await refusalOf(stripeAt(provider.url, 'nonsense').paymentIntents.create(card()));

    expect(refusal).toMatchObject({ type: 'StripeAuthenticationError', statusCode: 401 });
  });
});
