import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { LookUpFailedError, type ProviderFact } from '../../../src/payments/providers/payment-provider.js';
import type { StripeProvider } from '../../../src/payments/providers/stripe-provider.js';
import { type SeenRequest, ScriptedServer, sendJson } from '../../support/scripted-server.js';
import { CREATED, OPERATION, PAYMENT, paymentIntent, REFUND, refund, stripeAt, TENANT } from './movements.js';

const SINCE = new Date('2026-11-30T00:00:00.900Z');
const MARGIN_S = 300;
const OTHERS = { tenant: TENANT, payment: OPERATION };

let server: ScriptedServer;
let stripe: StripeProvider;

beforeAll(async () => {
  server = await ScriptedServer.start();
});
beforeEach(() => {
  stripe = stripeAt(server.url);
});
afterEach(() => server.forget());
afterAll(() => server.stop());

const charges = () => stripe.findCharges({ tenantId: TENANT, paymentId: PAYMENT, since: SINCE });
const refunds = () =>
  stripe.findRefunds({ tenantId: TENANT, paymentId: PAYMENT, since: SINCE, refundId: REFUND, chargeRef: 'pi_1' });
async function facts(): Promise<ProviderFact[]> {
  const all: ProviderFact[] = [];
  for await (const fact of stripe.madeSince(SINCE)) all.push(fact);
  return all;
}

/** Stripe's paging, https://docs.stripe.com/api/pagination: newest first, those behind `starting_after`. */
function serve(lists: Record<string, Record<string, unknown>[]>): void {
  server.script = (response, { path, query }) => {
    const all = lists[path] ?? [];
    const from = query.has('starting_after') ? all.findIndex(({ id }) => id === query.get('starting_after')) + 1 : 0;
    const to = from + Number(query.get('limit') ?? 10);
    sendJson(response, 200, { object: 'list', data: all.slice(from, to), has_more: to < all.length, url: path });
  };
}

const asked = ({ path, query }: SeenRequest): [string, object] => [path, Object.fromEntries(query)];

describe('charges of a payment', () => {
  it('are found in every page, the oldest first, and no others', async () => {
    const intents = Array.from({ length: 250 }, (_, index) =>
      paymentIntent({ id: `pi_${index}`, created: CREATED - index, metadata: index % 2 ? {} : OTHERS }),
    );
    intents[0] = paymentIntent({ id: 'pi_0' });
    intents[101] = paymentIntent({ id: 'pi_101', status: 'processing', created: CREATED - 101 });
    intents[249] = paymentIntent({ id: 'pi_249', amount: 5, created: CREATED - 249 });
    intents[7] = paymentIntent({ id: 'pi_7', metadata: { tenant: OPERATION, payment: PAYMENT } });
    serve({ '/v1/payment_intents': intents });

    const found = await charges();

    expect(found.map(({ reference, state, amount }) => [reference, state, amount])).toEqual([
      ['pi_249', 'succeeded', 5],
      ['pi_101', 'pending', 1_999],
      ['pi_0', 'succeeded', 1_999],
    ]);
    const from = { 'created[gte]': String(Math.floor(SINCE.getTime() / 1_000) - MARGIN_S), limit: '100' };
    expect(server.requests.map(asked)).toEqual([
      ['/v1/payment_intents', from],
      ['/v1/payment_intents', { ...from, starting_after: 'pi_99' }],
      ['/v1/payment_intents', { ...from, starting_after: 'pi_199' }],
    ]);
  });

  it('are none where Stripe shows none', async () => {
    serve({});
    expect(await charges()).toEqual([]);
  });

  it('are not hidden by odd objects of others', async () => {
    const odd = { id: 'pi_9', object: 'payment_intent', amount: 0, status: null, metadata: { order: '7' } };
    serve({ '/v1/payment_intents': [odd, paymentIntent()] });

    expect(await charges()).toHaveLength(1);
  });
});

describe('refunds of a charge', () => {
  it('are found by the id that was given to them', async () => {
    serve({
      '/v1/refunds': [
        refund({ id: 're_3', metadata: {} }),
        refund({ id: 're_2', status: 'pending' }),
        refund({ id: 're_1', metadata: { tenant: TENANT, payment: PAYMENT, refund: OPERATION } }),
        refund({ id: 're_0' }),
      ],
    });

    const found = await refunds();

    expect(found.map(({ reference, state }) => [reference, state])).toEqual([
      ['re_0', 'succeeded'],
      ['re_2', 'pending'],
    ]);
    expect(server.requests.map(asked)).toEqual([['/v1/refunds', { payment_intent: 'pi_1', limit: '100' }]]);
  });
});

describe('what was made since a time', () => {
  it('is told with whose it is, refunds of the dashboard by their payment intent', async () => {
    const ofOthers = paymentIntent({ id: 'pi_2', metadata: { tenant: 'acme', payment: '7' } });
    serve({
      '/v1/payment_intents': [ofOthers, paymentIntent()],
      '/v1/refunds': [
        refund({ id: 're_1' }),
        refund({ id: 're_2', metadata: {}, payment_intent: paymentIntent() }),
        refund({ id: 're_3', metadata: { refund: 'R-7' }, payment_intent: paymentIntent() }),
        refund({ id: 're_4', metadata: {}, payment_intent: ofOthers }),
        refund({ id: 're_5', metadata: {}, payment_intent: null }),
      ],
    });

    const ours = { tenantId: TENANT, paymentId: PAYMENT };
    expect(await facts()).toEqual([
      { kind: 'charge', ...ours, effect: expect.objectContaining({ reference: 'pi_1', amount: 1_999 }) },
      {
        kind: 'refund',
        ...ours,
        chargeRef: 'pi_1',
        refundId: REFUND,
        effect: expect.objectContaining({ reference: 're_1' }),
      },
      {
        kind: 'refund',
        ...ours,
        chargeRef: 'pi_1',
        effect: expect.objectContaining({ reference: 're_2', amount: 500 }),
      },
      { kind: 'refund', ...ours, chargeRef: 'pi_1', effect: expect.objectContaining({ reference: 're_3' }) },
    ]);
    const since = String(Math.floor(SINCE.getTime() / 1_000) - MARGIN_S);
    expect(server.requests.map(({ query }) => query.get('created[gte]'))).toEqual([since, since]);
    expect(server.requests[1]!.query.get('expand[0]')).toBe('data.payment_intent');
  });

  it('asks for the payment intent of a refund that does not show it', async () => {
    serve({ '/v1/refunds': [refund({ metadata: {} })] });
    const lists = server.script;
    server.script = (response, request) => {
      if (request.path === '/v1/payment_intents/pi_1') sendJson(response, 200, paymentIntent());
      else lists(response, request);
    };

    expect(await facts()).toEqual([expect.objectContaining({ kind: 'refund', tenantId: TENANT, paymentId: PAYMENT })]);
  });
});

describe.each([
  ['charges', charges],
  ['refunds', refunds],
  ['everything', facts],
])('looking up %s', (_what, lookUp) => {
  const list = (changes: object): object => ({ object: 'list', data: [], has_more: false, ...changes });

  it.each([
    ['an error', 500, { error: { type: 'api_error' } }],
    ['a refusal', 400, { error: { type: 'invalid_request_error' } }],
    ['no such thing', 404, { error: { type: 'invalid_request_error', code: 'resource_missing' } }],
    ['no right', 401, { error: { type: 'invalid_request_error' } }],
    ['too many requests', 429, { error: { type: 'rate_limit_error' } }],
    ['a web page', 200, '<html></html>'],
    ['no list', 200, {}],
    ['a list without data', 200, list({ data: undefined })],
    ['data of another kind', 200, list({ data: 'none' })],
    ['no word on whether there is more', 200, list({ has_more: undefined })],
    ['more behind an empty page', 200, list({ has_more: true })],
    ['objects without an id', 200, list({ data: [{ object: 'payment_intent' }] })],
    ['an object of ours that cannot be read', 200, list({ data: [paymentIntent({ created: 'today', object: '?' })] })],
    ['the same page again and again', 200, list({ data: [paymentIntent(), refund()], has_more: true })],
  ])('proves nothing when the answer is %s', async (_answer, status, body) => {
    server.answer(status, body);
    await expect(lookUp()).rejects.toThrow(LookUpFailedError);
  });

  it('proves nothing when a later page is missing', async () => {
    const { script } = server;
    server.script = (response, request) => {
      if (request.query.has('starting_after')) response.socket!.resetAndDestroy();
      else
        sendJson(
          response,
          200,
          list({ data: [{ id: 'x_1', ...(request.path.includes('refunds') ? refund() : {}) }], has_more: true }),
        );
    };
    await expect(lookUp()).rejects.toThrow(LookUpFailedError);
    expect(server.requests).toHaveLength(2);
    server.script = script;
  });
});
