import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type Stripe from 'stripe';
import { TestSandbox } from '../support/test-sandbox.js';
import { card, refusalOf } from './charges.js';

let provider: TestSandbox;
let stripe: Stripe;
/** Oldest first. */
const intents: string[] = [];
const refunds: string[] = [];
beforeAll(async () => {
  provider = await TestSandbox.start();
  stripe = provider.stripe;
  for (let n = 0; n < 25; n += 1) intents.push((await stripe.paymentIntents.create(card(1_000 + n))).id);
  for (const payment_intent of [intents[0], intents[0], intents[1]]) {
    refunds.push((await stripe.refunds.create({ payment_intent, amount: 100 })).id);
  }
});
afterAll(async () => {
  expect(provider.errors).toEqual([]);
  await provider.stop();
});

const newestFirst = () => [...intents].reverse();
const ids = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);

describe('a list of PaymentIntents', () => {
  it('is newest first, ten at a time unless said otherwise', async () => {
    const page = await stripe.paymentIntents.list();
    expect({ ...page, data: ids(page) }).toEqual({
      object: 'list',
      data: newestFirst().slice(0, 10),
      has_more: true,
      url: '/v1/payment_intents',
    });
    expect((await stripe.paymentIntents.list({ limit: 25 })).has_more).toBe(false);
    expect((await stripe.paymentIntents.list({ limit: 24 })).has_more).toBe(true);
  });

  it('is read whole by the pages of the SDK', async () => {
    const all: string[] = [];
    for await (const { id } of stripe.paymentIntents.list({ limit: 4 })) all.push(id);

    expect(all).toEqual(newestFirst());
  });

  it('is read backwards with ending_before', async () => {
    const order = newestFirst();
    const page = await stripe.paymentIntents.list({ limit: 3, ending_before: order[10] });
    const first = await stripe.paymentIntents.list({ limit: 3, ending_before: order[2] });

    expect([ids(page), page.has_more]).toEqual([order.slice(7, 10), true]);
    expect([ids(first), first.has_more]).toEqual([order.slice(0, 2), false]);
  });

  it('is cut by when they were made', async () => {
    await provider.database.query(`UPDATE sandbox.payment_intents SET created = 1000 + seq`);
    const [{ first } = { first: 0 }] = await provider.database.query<{ first: number }>(
      'SELECT min(created)::int AS first FROM sandbox.payment_intents',
    );
    const made = async (created: Stripe.RangeQueryParam | number) =>
      ids(await stripe.paymentIntents.list({ limit: 100, created })).reverse();

    expect(await made({ gte: first + 5 })).toEqual(intents.slice(5));
    expect(await made({ gt: first + 5 })).toEqual(intents.slice(6));
    expect(await made({ lt: first + 5 })).toEqual(intents.slice(0, 5));
    expect(await made({ lte: first + 5 })).toEqual(intents.slice(0, 6));
    expect(await made({ gte: first + 3, lt: first + 7 })).toEqual(intents.slice(3, 7));
    expect(await made(first + 4)).toEqual(intents.slice(4, 5));
  });

  it.each([
    [{ limit: 0 }, 'limit'],
    [{ limit: 101 }, 'limit'],
    [{ limit: 'many' }, 'limit'],
    [{ starting_after: 'pi_nothing' }, 'starting_after'],
    [{ ending_before: 'pi_nothing' }, 'ending_before'],
    [{ created: 'yesterday' }, 'created'],
    [{ created: { gte: 'x' } }, 'gte'],
    [{ created: { since: 5 } }, 'since'],
    [{ status: 'succeeded' }, 'status'],
  ])('is refused when it is asked for wrongly: %j', async (parameters, param) => {
    expect(await refusalOf(stripe.paymentIntents.list(parameters as Stripe.PaymentIntentListParams))).toMatchObject({
      statusCode: 400,
      param,
    });
  });

  it('is refused to whoever has no secret key', async () => {
    expect((await provider.http.get('/v1/payment_intents')).status).toBe(401);
  });
});

describe('a list of refunds', () => {
  it('is newest first, and can be that of one payment', async () => {
    const intent = await stripe.paymentIntents.retrieve(intents[0]!);
    const ofOne = [refunds[1], refunds[0]];

    expect(ids(await stripe.refunds.list())).toEqual([...refunds].reverse());
    expect(ids(await stripe.refunds.list({ payment_intent: intent.id }))).toEqual(ofOne);
    expect(ids(await stripe.refunds.list({ charge: intent.latest_charge as string }))).toEqual(ofOne);
    expect(ids(await stripe.refunds.list({ payment_intent: intents[5] }))).toEqual([]);
    expect(ids(await stripe.refunds.list({ created: { gte: 4_000_000_000 } }))).toEqual([]);
  });
});
