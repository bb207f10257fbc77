import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { nth } from '../support/boundaries.js';
import { call } from '../support/http-proxy.js';
import { statement } from '../support/postgres-proxy.js';
import type { ServiceResponse } from '../support/service-process.js';
import { untilStopped } from '../support/stopped-process.js';
import { waitFor } from '../support/wait-for.js';
import { CARD } from './paying.js';
import { type MoneyRequest, PayingProcesses } from './paying-processes.js';
import { BANK_TRANSFER, CARD_PAYMENT, CARD_REFUND, expectOneOutcome, finalAnswer } from './struck-courses.js';
import { moneyRows } from './money-rows.js';
import { STOPS_BEFORE_TRANSFER } from './stopping-owner.js';

let amount = 1_000;

describe('K5: an owner that stalls past its lease', () => {
  let processes: PayingProcesses;
  beforeAll(async () => (processes = await PayingProcesses.start()), 60_000);
  afterAll(() => processes.stop());
  afterEach(async () => {
    processes.owner.signal('SIGCONT');
    await processes.sandbox.disarm();
  });

  /** Lets another process finish what the stopped owner has begun, wakes the owner, and looks at what it did then. */
  const overtake = async (request: MoneyRequest, first: Promise<ServiceResponse>, awake: () => void) => {
    const finished = await finalAnswer(processes, processes.other, request);
    expect(finished.status).toBe(201);
    const rows = await moneyRows(processes.database);

    awake();
    processes.owner.signal('SIGCONT');
    const late = await first;
    expect([late.status, late.text]).toEqual([201, finished.text]);
    expect(late.headers).toMatchObject({ 'idempotent-replayed': 'true', etag: finished.headers.etag });
    expect(await moneyRows(processes.database)).toEqual(rows);
    return finished;
  };

  describe.each([CARD_PAYMENT, CARD_REFUND])('of $name', (course) => {
    const keysSent = async (before: number) =>
      (await processes.sandbox.calls()).slice(before).map(({ idempotencyKey }) => idempotencyKey);

    /** Begins the course with what `reached` waits for on its way, and stops the owner there. */
    const stopAt = async (arm: () => { reached: Promise<unknown>; release: () => void }) => {
      amount += 1;
      const request = await course.prepare(processes, amount);
      const before = (await processes.sandbox.calls()).length;
      const { reached, release } = arm();
      const first = processes.send(processes.owner, request);
      await reached;
      processes.owner.signal('SIGSTOP');
      await untilStopped(processes.owner.pid);
      return { request, first, before, release };
    };

    const expectOneOf = async (request: MoneyRequest, finished: ServiceResponse) => {
      expect(await expectOneOutcome(processes, course, amount, request, finished)).toBe('moved');
    };

    it('before its first step is committed: its connection ends, and its writes with it', async () => {
      const { request, first, before, release } = await stopAt(() =>
        processes.postgres.hold(statement.starts(/SET\s+recovery_point = \$6/)),
      );
      // What Postgres does by itself with a transaction in which nobody says anything any more (25P03), only sooner.
      await processes.database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND state = 'idle in transaction'`,
      );
      await expectOneOf(request, await overtake(request, first, release));
      expect(await keysSent(before)).toHaveLength(1);
    });

    it('between its first step and the call: it calls nobody any more', async () => {
      const { request, first, before, release } = await stopAt(() =>
        processes.postgres.hold(nth(2, statement.isAnswered('COMMIT'))),
      );
      await expectOneOf(request, await overtake(request, first, release));
      expect(await keysSent(before)).toHaveLength(1);
    });

    it('while its call is on the way: what arrives late carries the same child key', async () => {
      const { request, first, before, release } = await stopAt(() =>
        processes.provider.hold(call.isMade('POST', course.call.path)),
      );
      const finished = await overtake(request, first, release);
      await waitFor(async () => (await keysSent(before)).length === 2, { description: 'the late call to arrive' });
      const [one, other] = await keysSent(before);
      expect(one).toMatch(/^\S{20,}$/);
      expect(other).toBe(one);
      await expectOneOf(request, finished);
    });

    it('while the reply to its call is on the way: what the call did is found', async () => {
      const { request, first, before, release } = await stopAt(() => {
        const reached = (async () => {
          const before = (await processes.sandbox.effects()).length;
          await processes.sandbox.arm(course.call.operation, 'delay', { delayMs: 400 });
          await waitFor(async () => (await processes.sandbox.effects()).length > before, { description: 'the effect' });
        })();
        return { reached, release: () => undefined };
      });
      await expectOneOf(request, await overtake(request, first, release));
      expect(await keysSent(before)).toHaveLength(1);
    });

    it('between the reply and its last step: it completes nothing', async () => {
      const { request, first, before, release } = await stopAt(() =>
        processes.postgres.hold(nth(2, statement.starts('BEGIN'))),
      );
      await expectOneOf(request, await overtake(request, first, release));
      expect(await keysSent(before)).toHaveLength(1);
    });
  });
});

describe('a bank transfer whose owner stalls just before it calls', () => {
  let processes: PayingProcesses;
  let stalled: { request: MoneyRequest; orderId: string; first: Promise<ServiceResponse>; amount: number };
  beforeAll(async () => {
    processes = await PayingProcesses.start();
    const { url } = processes.provider;
    await processes.replaceOther({ RECONCILIATION_INTERVAL: '200ms', STRIPE_API_BASE: url });
  }, 60_000);
  afterAll(() => processes.stop());

  /** Days pass in the database: everything was sent so much earlier. */
  const age = async () => {
    await processes.database.query(`UPDATE payments SET sent_at = sent_at - interval '26 hours'`);
    await processes.database.query(`UPDATE idempotency_keys SET created_at = created_at - interval '26 hours'`);
  };
  const effects = async () => (await processes.sandbox.effects()).filter((effect) => effect.amount === amount);
  const orderStatus = async () =>
    ((await processes.get(processes.other, `/v1/orders/${stalled.orderId}`)).json as { status: string }).status;
  const givenUp = () =>
    waitFor(() => processes.database.count('payments', `status = 'failed' AND order_id = $1`, [stalled.orderId]), {
      description: 'the payment to be given up',
    });

  const stall = async () => {
    amount += 1;
    const owner = await processes.startOwner({ NODE_OPTIONS: `--import ${STOPS_BEFORE_TRANSFER}` });
    await processes.owner.kill();
    processes.owner = owner;
    const request = await BANK_TRANSFER.prepare(processes, amount);
    const first = processes.send(owner, request);
    await untilStopped(owner.pid);
    stalled = { request, first, amount, orderId: request.path.split('/')[3]! };

    // Whoever takes it over may only ask.
    await waitFor(
      async () => (await processes.send(processes.other, request)).json.code === 'payment-outcome-unknown',
      {
        description: 'another process to take it over',
      },
    );
    expect(await effects()).toEqual([]);
  };

  it('is booked when it lands while everybody waits for it', async () => {
    await stall();
    processes.owner.signal('SIGCONT');
    const finished = await finalAnswer(processes, processes.other, stalled.request);
    expect(await expectOneOutcome(processes, BANK_TRANSFER, amount, stalled.request, finished)).toBe('moved');
    const late = await stalled.first;
    expect([201, 503]).toContain(late.status);
    if (late.status === 201) expect(late.text).toBe(finished.text);
  });

  it('is booked when it lands after it was given up, and the answer that was given stands', async () => {
    await stall();
    await age();
    await givenUp();
    processes.owner.signal('SIGCONT');
    await waitFor(async () => (await orderStatus()) === 'paid', { description: 'the late transfer to be booked' });

    const { request, first, orderId } = stalled;
    const answer = await finalAnswer(processes, processes.other, request);
    expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([402, 'true']);
    expect((await first).text).toBe(answer.text);
    expect(await effects()).toHaveLength(1);
    const events = await processes.database.query(
      `SELECT o.type FROM outbox o JOIN payments p ON p.id = o.aggregateid WHERE p.order_id = $1 ORDER BY aggregateversion`,
      [orderId],
    );
    expect(events).toEqual([{ type: 'payment.failed' }, { type: 'payment.succeeded' }]);
  });

  it('is given back, once, when the order was paid by another payment meanwhile', async () => {
    await stall();
    await age();
    await givenUp();
    const { orderId } = stalled;
    const again: MoneyRequest = { path: `/v1/orders/${orderId}/payments`, body: CARD, key: `again-${orderId}` };
    expect((await finalAnswer(processes, processes.other, again)).status).toBe(201);

    processes.owner.signal('SIGCONT');
    await waitFor(() => processes.database.count('surplus_charges', `status = 'returned' AND amount = $1`, [amount]), {
      timeoutMs: 30_000,
      description: 'the surplus to be given back',
    });
    for (let more = 0; more < 3; more++) {
      await processes.provider.once(call.isMade('GET', '/v1/payment_intents'), 'pass'); // another reconciliation
    }
    expect((await effects()).map(({ operation }) => operation)).toEqual([
      'payment_intents.create',
      'bank_transfers.create', // late
      'bank_transfers.create', // given back
    ]);
    const [sums] = await processes.database.query(
      `SELECT array_agg(p.status ORDER BY p.created_at) AS payments,
              (SELECT sum(m.amount)::int FROM money_movements m JOIN payments q ON q.id = m.payment_id
               WHERE q.order_id = $1) AS balance
       FROM payments p WHERE p.order_id = $1`,
      [orderId],
    );
    expect(sums).toEqual({ payments: ['failed', 'succeeded'], balance: amount });
    expect(await orderStatus()).toBe('paid');
  });
});
