import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { type Ledger, TestSandbox } from '../support/test-sandbox.js';
import { card } from './charges.js';

let provider: TestSandbox;
beforeAll(async () => {
  provider = await TestSandbox.start();
});
afterAll(async () => {
  expect(provider.errors).toEqual([]);
  await provider.stop();
});
beforeEach(() => provider.http.delete('/sandbox/faults'));

type Call = (key: string) => Promise<unknown>;

/** One call of each kind that moves money, ready to be made. */
const OPERATIONS: [string, () => Promise<Call>][] = [
  [
    'payment_intents.create',
    async () => (idempotencyKey) => provider.stripe.paymentIntents.create(card(), { idempotencyKey }),
  ],
  [
    'refunds.create',
    async () => {
      const { id } = await provider.stripe.paymentIntents.create(card());
      return (idempotencyKey) => provider.stripe.refunds.create({ payment_intent: id, amount: 10 }, { idempotencyKey });
    },
  ],
  [
    'bank_transfers.create',
    async () => (reference) =>
      provider.http
        .post('/bank/transfers', { reference, amount: 100, currency: 'EUR', account: 'DE89370400440532013000' })
        .then((response) => {
          if (response.status >= 400) throw Object.assign(new Error(response.text), { statusCode: response.status });
          return response.body;
        }),
  ],
];

/** What a call ends with: its result, a status, or the code of a lost connection. */
async function outcomeOf(call: Promise<unknown>): Promise<unknown> {
  try {
    await call;
    return 'answered';
  } catch (error) {
    const { statusCode, code, detail } = error as { statusCode?: number; code?: string; detail?: { code?: string } };
    return statusCode ?? /ECONNRESET/.exec(detail?.code ?? code ?? '')?.[0] ?? error;
  }
}

async function since(before: Ledger) {
  const { effects, calls } = await provider.ledger();
  return {
    effects: effects.slice(before.effects.length).length,
    statuses: calls.slice(before.calls.length).map(({ status }) => status),
  };
}

describe.each(OPERATIONS)('a fault of %s', (operation, prepare) => {
  const knowsKeys = operation !== 'bank_transfers.create';
  const done = knowsKeys ? 200 : 201;
  /** A repeat happens again where no key is known. */
  const twice = knowsKeys ? 1 : 2;

  it.each([
    [
      'drop-response',
      'ECONNRESET',
      { effects: 1, statuses: [null] },
      'answered',
      { effects: twice, statuses: [null, done] },
    ],
    ['error-503', 503, { effects: 0, statuses: [503] }, 'answered', { effects: 1, statuses: [503, done] }],
    [
      'reset-connection',
      'ECONNRESET',
      { effects: 0, statuses: [null] },
      'answered',
      { effects: 1, statuses: [null, done] },
    ],
    [
      'error-500',
      500,
      { effects: 1, statuses: [500] },
      knowsKeys ? 500 : 'answered',
      { effects: twice, statuses: [500, knowsKeys ? 500 : done] },
    ],
  ])('%s: one call, and the same again', async (fault, first, afterFirst, second, afterSecond) => {
    const call = await prepare();
    const before = await provider.ledger();
    const key = randomUUID();
    await provider.arm(operation, fault);

    expect(await outcomeOf(call(key))).toEqual(first);
    expect(await since(before)).toEqual(afterFirst);
    expect(await outcomeOf(call(key))).toEqual(second);
    expect(await since(before)).toEqual(afterSecond);
  });

  it('delay: it happens at once, and the answer comes later', async () => {
    const call = await prepare();
    const before = await provider.ledger();
    await provider.arm(operation, 'delay', { delayMs: 400 });
    const started = performance.now();

    expect(await outcomeOf(call(randomUUID()))).toBe('answered');
    expect(performance.now() - started).toBeGreaterThanOrEqual(395);
    expect(await since(before)).toEqual({ effects: 1, statuses: [done] });
  });

  it('happens as often as was said, to the calls of all callers together', async () => {
    const call = await prepare();
    await provider.arm(operation, 'error-503', { times: 3 });
    await provider.arm(operation, 'error-500', { times: 2 });
    const outcomes = await Promise.all(Array.from({ length: 12 }, () => outcomeOf(call(randomUUID()))));

    expect(outcomes.sort()).toEqual([500, 500, 503, 503, 503, ...Array<string>(7).fill('answered')]);
  });
});

describe('armed faults', () => {
  const [, prepareCharge] = OPERATIONS[0]!;

  it('happen in the order they were armed, to their operation alone', async () => {
    const charge = await prepareCharge();
    await provider.arm('payment_intents.create', 'error-503');
    await provider.arm('refunds.create', 'error-500');
    await provider.arm('payment_intents.create', 'error-500');

    const outcomes = [];
    for (let n = 0; n < 3; n += 1) outcomes.push(await outcomeOf(charge(randomUUID())));
    expect(outcomes).toEqual([503, 500, 'answered']);
  });

  it('wait for a call that is understood: one that is refused uses none up', async () => {
    const charge = await prepareCharge();
    await provider.arm('payment_intents.create', 'error-503');

    expect(await outcomeOf(provider.stripe.paymentIntents.create(card(1)))).toBe(400);
    expect(await outcomeOf(charge(randomUUID()))).toBe(503);
  });

  it('reach replays as well, but for the 500 of an execution', async () => {
    const charge = await prepareCharge();
    const key = randomUUID();
    await charge(key);
    await provider.arm('payment_intents.create', 'drop-response');
    await provider.arm('payment_intents.create', 'error-500');

    expect(await outcomeOf(charge(key))).toBe('ECONNRESET');
    expect(await outcomeOf(charge(key))).toBe('answered');
    expect(await outcomeOf(charge(randomUUID()))).toBe(500);
  });

  it('are gone when they are cleared', async () => {
    const charge = await prepareCharge();
    await provider.arm('payment_intents.create', 'error-503', { times: 5 });
    const { status, text } = await provider.http.delete('/sandbox/faults');

    expect([status, text]).toEqual([204, '']);
    expect(await outcomeOf(charge(randomUUID()))).toBe('answered');
  });

  it('cut off what they delay when the sandbox stops', async () => {
    const own = await TestSandbox.start();
    try {
      await own.arm('payment_intents.create', 'delay', { delayMs: 60_000 });
      const call = outcomeOf(own.stripe.paymentIntents.create(card()));
      while ((await own.ledger()).effects.length === 0);
      const started = performance.now();
      await own.sandbox.stop();

      expect(await call).toBe('ECONNRESET');
      expect(performance.now() - started).toBeLessThan(2_500);
    } finally {
      await own.stop();
    }
  });

  it.each([
    [{}, 'operation'],
    [{ operation: 'orders.create', fault: 'delay' }, 'operation'],
    [{ operation: 'refunds.create' }, 'fault'],
    [{ operation: 'refunds.create', fault: 'toString' }, 'fault'],
    [{ operation: 'refunds.create', fault: 'delay', times: 0 }, 'times'],
    [{ operation: 'refunds.create', fault: 'delay', times: 1.5 }, 'times'],
    [{ operation: 'refunds.create', fault: 'delay', times: '2' }, 'times'],
    [{ operation: 'refunds.create', fault: 'delay', times: 1e9 }, 'times'],
    [{ operation: 'refunds.create', fault: 'delay', delayMs: -1 }, 'delayMs'],
    [{ operation: 'refunds.create', fault: 'delay', delay: 5 }, 'delay'],
    [[], undefined],
    ['{"operation":', undefined],
    ['', undefined],
  ])('are refused when they are none: %j', async (body, param) => {
    const { status, body: answer } = await provider.http.post('/sandbox/faults', body);

    expect([status, answer.error.param]).toEqual([400, param]);
    expect(answer.error.message).toEqual(expect.any(String));
    expect(await provider.database.count('sandbox.faults')).toBe(0);
  });
});
