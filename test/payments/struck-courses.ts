import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from '@jest/globals';
import type { Boundary } from '../support/boundaries.js';
import { call } from '../support/http-proxy.js';
import type { ServiceProcess, ServiceResponse } from '../support/service-process.js';
import { waitFor } from '../support/wait-for.js';
import { CARD, TRANSFER } from './paying.js';
import type { MoneyRequest, PayingProcesses } from './paying-processes.js';

/** A movement of money from its request to its answer, that can be struck at any message. */
export interface Course {
  readonly name: string;
  readonly kind: 'payment' | 'refund';
  /** The call by which the money moves. */
  readonly call: { readonly operation: string; readonly path: string };
  /** Whether an earlier attempt has begun it, so that it may be given up before this one goes on. */
  readonly begun?: boolean;
  /** Brings about what the request needs, of which nothing is struck. */
  prepare(processes: PayingProcesses, amount: number): Promise<MoneyRequest>;
}

const AT_STRIPE = { operation: 'payment_intents.create', path: '/v1/payment_intents' };
const REFUND_AT_STRIPE = { operation: 'refunds.create', path: '/v1/refunds' };
const AT_BANK = { operation: 'bank_transfers.create', path: '/bank/transfers' };

export const CARD_PAYMENT: Course = {
  name: 'a card payment',
  kind: 'payment',
  call: AT_STRIPE,
  prepare: async (processes, amount) => payment(await processes.order(amount), CARD),
};

export const CARD_REFUND: Course = {
  name: 'a refund to a card',
  kind: 'refund',
  call: REFUND_AT_STRIPE,
  prepare: (processes, amount) => refundOf(processes, amount, CARD),
};

export const BANK_TRANSFER: Course = {
  name: 'a bank transfer',
  kind: 'payment',
  call: AT_BANK,
  prepare: async (processes, amount) => payment(await processes.order(amount), TRANSFER),
};

export const BANK_REFUND: Course = {
  name: 'a refund of a bank transfer',
  kind: 'refund',
  call: AT_BANK,
  prepare: (processes, amount) => refundOf(processes, amount, TRANSFER),
};

/** Of which the first attempt has lost its call on the way, so that this one looks, and sends again. */
export const RESUMED_CARD_PAYMENT: Course = {
  ...CARD_PAYMENT,
  name: 'a card payment whose first call was lost',
  prepare: (processes, amount) => attempted(processes, CARD_PAYMENT, amount, 'cut'),
};

/** Of which the first attempt was told that nothing has happened, so that this one notes that it calls, and calls. */
export const RESUMED_BANK_TRANSFER: Course = {
  ...BANK_TRANSFER,
  name: 'a bank transfer that was turned away at first',
  begun: true,
  prepare: (processes, amount) => attempted(processes, BANK_TRANSFER, amount, 429),
};

/** How a course may end. */
export type End = 'moved' | 'failed';

function payment(orderId: string, body: unknown): MoneyRequest {
  return { path: `/v1/orders/${orderId}/payments`, body, key: randomUUID() };
}

async function refundOf(processes: PayingProcesses, amount: number, means: unknown): Promise<MoneyRequest> {
  const paid = await finalAnswer(processes, processes.other, payment(await processes.order(amount), means));
  const { id } = paid.json as { id: string };
  return { path: `/v1/payments/${id}/refunds`, body: {}, key: randomUUID() };
}

async function attempted(processes: PayingProcesses, course: Course, amount: number, verdict: 'cut' | 429) {
  const request = await course.prepare(processes, amount);
  const made = processes.provider.once(call.isMade('POST', course.call.path), verdict);
  expect((await processes.send(processes.owner, request)).status).toBe(503);
  await made;
  return request;
}

/** Sends the request again until there is an answer that stands. */
export async function finalAnswer(
  processes: PayingProcesses,
  to: ServiceProcess,
  request: MoneyRequest,
): Promise<ServiceResponse> {
  let answer: ServiceResponse | undefined;
  for (let attempt = 0; attempt < 100; attempt++) {
    answer = await processes.send(to, request);
    if (answer.status === 201 || answer.status === 402) return answer;
    expect([409, 503]).toContain(answer.status);
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    await sleep(100); // sooner than told: it must stand that, too
  }
  throw new Error(`No answer that stands: ${answer?.status} ${answer?.text}`);
}

/** Money that is settled and a key that is completed are seen together or not at all, however the request was struck. */
export async function expectNothingTorn({ database }: PayingProcesses, { kind }: Course, { key }: MoneyRequest) {
  const torn = await database.query(
    `SELECT m.status AS money, k.status AS key
     FROM ${kind}s m JOIN idempotency_keys k ON k.tenant_id = m.tenant_id AND k.operation_id = m.operation_id
     WHERE k.key = $1 AND (m.status <> 'pending') <> (k.status = 'completed')`,
    [key],
  );
  expect(torn).toEqual([]);
}

/** Waits until nobody is needed any more for what was begun with that key. */
export async function settledAlone({ database }: PayingProcesses, { key }: MoneyRequest): Promise<void> {
  const open = `key = $1 AND status = 'in_progress' AND recovery_point <> 'created'`;
  await waitFor(async () => (await database.count('idempotency_keys', open, [key])) === 0, {
    timeoutMs: 60_000,
    description: `the reconciliation to settle ${key}`,
  });
}

/** The one set of rows, effects and events that a course leaves, however it was struck. */
export async function expectOneOutcome(
  { database, sandbox }: PayingProcesses,
  { kind }: Course,
  amount: number,
  request: MoneyRequest,
  { status, json }: ServiceResponse,
): Promise<End> {
  const end: End = status === 201 ? 'moved' : 'failed';
  const { id, paymentId = id, refundId = id } = json as { id: string; paymentId?: string; refundId?: string };
  const [found] = await database.query<Record<string, unknown>>(
    `SELECT array(SELECT status FROM payments WHERE order_id = o.id) AS payments,
            array(SELECT status FROM refunds WHERE payment_id = p.id) AS refunds,
            array(SELECT kind FROM money_movements WHERE payment_id = p.id ORDER BY kind) AS movements,
            array(SELECT type || ' ' || aggregateversion FROM outbox WHERE aggregateid IN (p.id, $2)
                  ORDER BY aggregatetype, aggregateversion) AS events,
            o.status AS order, p.refunded_amount::float8 AS refunded, p.reserved_amount::float8 AS reserved,
            array(SELECT status FROM idempotency_keys WHERE key = $3) AS keys,
            (SELECT count(*)::int FROM surplus_charges WHERE payment_id = p.id) AS surplus
     FROM payments p JOIN orders o ON o.id = p.order_id WHERE p.id = $1`,
    [paymentId, kind === 'refund' ? refundId : null, request.key],
  );
  const effects = (await sandbox.effects()).filter((effect) => effect.amount === amount).length;
  expect({ ...found, effects }).toEqual({
    ...OUTCOMES[kind][end],
    refunded: kind === 'refund' && end === 'moved' ? amount : 0,
    reserved: 0,
    keys: ['completed'],
    surplus: 0,
  });
  return end;
}

const CHARGED = { payments: ['succeeded'], order: 'paid', movements: ['charge'] };
const OUTCOMES = {
  payment: {
    moved: { ...CHARGED, refunds: [], events: ['payment.succeeded 2'], effects: 1 },
    failed: {
      payments: ['failed'],
      refunds: [],
      order: 'pending',
      movements: [],
      events: ['payment.failed 2'],
      effects: 0,
    },
  },
  refund: {
    moved: {
      ...CHARGED,
      refunds: ['succeeded'],
      order: 'refunded',
      movements: ['charge', 'refund'],
      events: ['payment.succeeded 2', 'refund.succeeded 2'],
      effects: 2,
    },
    failed: { ...CHARGED, refunds: ['failed'], events: ['payment.succeeded 2', 'refund.failed 2'], effects: 1 },
  },
};

/** Another retry gets the same bytes, and what they name can be read. */
export async function expectReplay(
  processes: PayingProcesses,
  to: ServiceProcess,
  request: MoneyRequest,
  first: ServiceResponse,
): Promise<void> {
  const again = await processes.send(to, request);
  expect(again.headers['idempotent-replayed']).toBe('true');
  expect(pick(again)).toEqual(pick(first));
  if (first.status === 201) expect((await processes.get(to, first.headers.location!)).json).toEqual(first.json);
}

function pick({ status, headers: { location, etag, 'content-type': type }, text }: ServiceResponse) {
  return { status, location, etag, type, text };
}

/** Which ends a boundary allows where nobody may send again: a call that was noted and never arrived ends as failed. */
export function endsWithoutRepeating(
  boundaries: readonly Boundary[],
  at: number,
  { call, begun }: Course,
): readonly End[] {
  const called = boundaries.findIndex(({ way, what }) => way === 'call' && what === `POST ${call.path}`);
  const commits = boundaries.map(({ way, what }, index) =>
    what === 'COMMIT' && index < called ? { way, index } : null,
  );
  const noted = (way: Boundary['way']) => commits.findLast((commit) => commit?.way === way)!.index;
  if (at > called) return ['moved'];
  if (at <= noted('statement')) return begun ? ['moved', 'failed'] : ['moved'];
  return at < noted('result') ? ['moved', 'failed'] : ['failed'];
}
