import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { ProviderAnswer } from '../../../src/payments/providers/payment-provider.js';
import { LookUpFailedError } from '../../../src/payments/providers/payment-provider.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { bankAt, MOVES, PAYMENT, paymentIntent, refund, stripeAt, TENANT, transfer } from './movements.js';

const RUNS = 300;

let server: ScriptedServer;

beforeAll(async () => {
  server = await ScriptedServer.start();
});
afterEach(() => server.forget());
afterAll(() => server.stop());

const status = fc.oneof(
  fc.constantFrom(200, 201, 400, 401, 402, 404, 409, 429, 500),
  fc.integer({ min: 200, max: 599 }),
);

/** Members that decide something, with values that could be mistaken. */
const member = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom(
    'succeeded',
    'pi_1',
    're_1',
    'tr_1',
    'EUR',
    'eur',
    1_999,
    500,
    'card_error',
    'payment_method',
    'error',
  ),
);

/** What the server may send back: rubbish, JSON of any shape, an error, or nearly what it should have been. */
function answersLike(proper: object): fc.Arbitrary<string> {
  const changed = fc
    .dictionary(fc.constantFrom(...Object.keys(proper), 'error'), member, { maxKeys: 2 })
    .map((changes) => JSON.stringify({ ...proper, ...changes }));
  const error = fc
    .record(
      { type: member, code: member, decline_code: member, param: member, message: member, payment_intent: member },
      { requiredKeys: [] },
    )
    .map((error) => JSON.stringify({ error }));
  return fc.oneof(fc.string({ unit: 'binary' }), fc.json(), changed, error, fc.constant(JSON.stringify(proper)));
}

/** Whether the body says in each member that decides what the proper one says. */
function isProper(body: string, proper: Record<string, unknown>): boolean {
  const deciding = [
    'object',
    'id',
    'reference',
    'amount',
    'currency',
    'status',
    'metadata',
    'payment_intent',
    'refundOf',
  ];
  const json: unknown = JSON.parse(body);
  const said = json as Record<string, unknown>;
  return deciding.every((name) => {
    // Whatever it is called, it is the provider's name for it.
    if (name === 'id') return typeof said.id === 'string' && said.id !== '';
    const same = (value: unknown): string => JSON.stringify(value ?? null).toLowerCase();
    return same(said[name]) === same(proper[name]);
  });
}

function expectSound(answer: ProviderAnswer, given: number, body: string, proper: Record<string, unknown>): void {
  expect(['effect', 'refused', 'not-happened', 'unknown', 'fault']).toContain(answer.kind);
  if (answer.kind === 'effect' && answer.effect.state === 'succeeded') {
    expect(given).toBeGreaterThanOrEqual(200);
    expect(given).toBeLessThan(300);
    expect(isProper(body, proper)).toBe(true);
  }
  // Nothing that leaves room for doubt may say that nothing has happened.
  if (answer.kind === 'not-happened') expect(given).toBe(429);
  if (answer.kind === 'refused') expect([400, 402]).toContain(given);
  if (answer.kind === 'fault') expect(Math.floor(given / 100)).toBe(4);
  if (given >= 500) expect(answer.kind).toBe('unknown');
}

describe.each(MOVES)('%s', (_name, at, proper) => {
  it('takes any answer, and none but a proper one for a success (property)', async () => {
    const call = at(server.url);
    await fc.assert(
      fc.asyncProperty(status, answersLike(proper), async (given, body) => {
        server.answer(given, body);
        expectSound(await call(), given, body, proper as Record<string, unknown>);
      }),
      { numRuns: RUNS },
    );
    expect(server.requests).toHaveLength(RUNS);
  });
});

const query = { tenantId: TENANT, paymentId: PAYMENT, since: new Date(0) };

describe.each([
  ['charges at Stripe', (url: string) => () => stripeAt(url).findCharges(query), paymentIntent()],
  ['refunds at Stripe', findRefunds, refund()],
  ['charges at the bank', (url: string) => () => bankAt(url).findCharges(query), transfer()],
])('looking for %s', (_name, at, proper) => {
  it('takes any answer, and none but a proper list for a proof of absence (property)', async () => {
    const lookUp = at(server.url);
    const list = fc
      .dictionary(fc.constantFrom('data', 'has_more', 'object'), member, { maxKeys: 2 })
      .map((changes) => JSON.stringify({ object: 'list', data: [proper], has_more: false, ...changes }));
    await fc.assert(
      fc.asyncProperty(status, fc.oneof(list, answersLike(proper)), async (given, body) => {
        server.answer(given, body);
        const found = await lookUp().catch((error: unknown) => {
          expect(error).toBeInstanceOf(LookUpFailedError);
          return undefined;
        });
        if (!found) return;
        expect(Math.floor(given / 100)).toBe(2);
        const { data } = JSON.parse(body) as { data: unknown };
        expect(Array.isArray(data)).toBe(true);
        expect(found).toHaveLength((data as unknown[]).length);
      }),
      { numRuns: RUNS },
    );
  });
});

function findRefunds(url: string) {
  const { refundId, chargeRef } = {
    refundId: String((refund().metadata as { refund: string }).refund),
    chargeRef: 'pi_1',
  };
  return () => stripeAt(url).findRefunds({ ...query, refundId, chargeRef });
}
