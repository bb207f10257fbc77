import { recordEffect } from '../ledger.js';
import { json, type Reply } from '../reply.js';
import type { Sql } from '../sandbox-database.js';
import { type Cause, recordEvent } from '../webhooks/events.js';
import type { Form } from './form.js';
import { newId } from './ids.js';
import { type Listing, list } from './list.js';
import { Parameters } from './parameters.js';
import {
  type PaymentIntentRow,
  renderCharge,
  renderPaymentIntent,
  SELECT_PAYMENT_INTENT,
} from './payment-intent-view.js';
import { badParameter, noSuch, StripeRefusal } from './stripe-refusal.js';
import { findTestCard } from './test-cards.js';

const PARAMETERS = ['payment_intent', 'charge', 'amount', 'reason', 'metadata'];
const REASONS = ['duplicate', 'fraudulent', 'requested_by_customer'];

interface RefundRow {
  readonly id: string;
  readonly payment_intent: string;
  readonly amount: number;
  readonly currency: string;
  readonly status: 'pending' | 'succeeded' | 'failed';
  readonly reason: string | null;
  readonly failure_reason: string | null;
  readonly metadata: Record<string, string>;
  readonly created: number;
  readonly charge: string;
}

export interface NewRefund {
  readonly of: { readonly payment_intent: string } | { readonly charge: string };
  /** Undefined: all that is left. */
  readonly amount: number | undefined;
  readonly reason: string | null;
  readonly metadata: Record<string, string>;
}

/** @throws StripeRefusal for parameters that could never do */
export function readNewRefund(form: Form): NewRefund {
  const parameters = new Parameters(form, PARAMETERS);
  const intent = parameters.string('payment_intent');
  const charge = parameters.string('charge');
  if ((intent === undefined) === (charge === undefined)) {
    const [how, code] = intent === undefined ? ['One', 'parameter_missing'] : ['Only one', 'parameters_exclusive'];
    const message = `${how} of the following params should be provided for this request: payment_intent or charge.`;
    throw badParameter('payment_intent', message, code);
  }
  return {
    of: intent === undefined ? { charge: charge! } : { payment_intent: intent },
    amount: parameters.integer('amount', 1, Number.MAX_SAFE_INTEGER),
    reason: parameters.oneOf('reason', REASONS) ?? null,
    metadata: parameters.metadata(),
  };
}

/** @param settleMs how long a refund takes whose outcome is not there at once */
export async function createRefund(sql: Sql, wanted: NewRefund, cause: Cause, settleMs: number): Promise<Reply> {
  try {
    const paid = await lockPaid(sql, wanted.of);
    const row = await insert(sql, paid, wanted, settleMs);
    await recordEffect(sql, {
      operation: 'refunds.create',
      reference: row.id,
      amount: row.amount,
      currency: row.currency,
      idempotencyKey: cause.idempotencyKey,
    });
    const view = renderRefund(row);
    await recordEvent(sql, 'refund.created', view, cause);
    await recordEvent(sql, 'charge.refunded', await chargeOf(sql, row), cause);
    return json(200, view);
  } catch (error) {
    if (error instanceof StripeRefusal) return error.reply;
    throw error;
  }
}

/** Refunds of one payment queue here, so that all of them together never exceed it. */
async function lockPaid(sql: Sql, of: NewRefund['of']): Promise<PaymentIntentRow> {
  const [column, id] = 'charge' in of ? (['charge', of.charge] as const) : (['id', of.payment_intent] as const);
  const [locked] = await sql.query<{ id: string }>(
    `SELECT id FROM sandbox.payment_intents WHERE ${column} = $1 FOR UPDATE`,
    [id],
  );
  const param = column === 'id' ? 'payment_intent' : 'charge';
  if (!locked) throw noSuch(param, id, param, 400);
  // In a statement of its own: the one that waited for the lock saw what was given back before it waited.
  const [row] = await sql.query<PaymentIntentRow>(`${SELECT_PAYMENT_INTENT} WHERE t.id = $1`, [locked.id]);
  if (row!.status === 'succeeded') return row!;
  const message = `This PaymentIntent (${row!.id}) does not have a successful charge to refund.`;
  throw badParameter(param, message, 'charge_not_refundable');
}

async function insert(sql: Sql, paid: PaymentIntentRow, wanted: NewRefund, settleMs: number): Promise<RefundRow> {
  const left = paid.amount - paid.refunded;
  if (left === 0) {
    throw new StripeRefusal(400, {
      type: 'invalid_request_error',
      code: 'charge_already_refunded',
      message: `Charge ${paid.charge} has already been refunded.`,
    });
  }
  const amount = wanted.amount ?? left;
  if (amount > left) {
    throw badParameter('amount', `Refund amount (${amount}) is greater than unrefunded amount on charge (${left})`);
  }
  const course = courseOf(paid);
  const [row] = await sql.query<RefundRow>(
    `INSERT INTO sandbox.refunds
       (id, payment_intent, amount, currency, status, reason, metadata, settles_as, settles_at, created)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text,
             CASE WHEN $8::text IS NOT NULL THEN statement_timestamp() + $9 * interval '1 millisecond' END,
             floor(extract(epoch FROM statement_timestamp())))
     RETURNING *, $10::text AS charge`,
    [
      ...[newId('re'), paid.id, amount, paid.currency, course.status, wanted.reason, JSON.stringify(wanted.metadata)],
      ...[course.settlesAs, settleMs, paid.charge],
    ],
  );
  return row!;
}

function courseOf({ test_card }: PaymentIntentRow): { status: RefundRow['status']; settlesAs: string | null } {
  const card = test_card === null ? undefined : findTestCard(test_card);
  if (card?.charge === 'succeeds' && card.refund === 'pends') return { status: 'pending', settlesAs: 'succeeded' };
  if (card?.charge === 'succeeds' && card.refund === 'fails') return { status: 'succeeded', settlesAs: 'failed' };
  return { status: 'succeeded', settlesAs: null };
}

/**
 * A refund comes to its end, or fails although it had succeeded; the money is then on the charge again.
 *
 * @returns undefined when there is no such refund
 */
export async function settleRefund(sql: Sql, id: string, status: 'succeeded' | 'failed', cause: Cause) {
  const [known] = await sql.query<RefundRow>(`${SELECT_REFUND} WHERE t.id = $1`, [id]);
  if (!known) return undefined;
  await lockPaid(sql, { payment_intent: known.payment_intent });
  const [row] = await sql.query<RefundRow>(
    `UPDATE sandbox.refunds SET status = $2, settles_as = NULL, settles_at = NULL,
       failure_reason = CASE WHEN $2 = 'failed' THEN 'lost_or_stolen_card' END
     WHERE id = $1 AND status <> $2 AND status <> 'failed' RETURNING *, $3::text AS charge`,
    [id, status, known.charge],
  );
  if (!row) return renderRefund((await sql.query<RefundRow>(`${SELECT_REFUND} WHERE t.id = $1`, [id]))[0]!);
  const view = renderRefund(row);
  await recordEvent(sql, 'refund.updated', view, cause);
  if (status === 'failed') await recordEvent(sql, 'refund.failed', view, cause);
  return view;
}

export async function retrieveRefund(sql: Sql, id: string): Promise<Reply> {
  const [row] = await sql.query<RefundRow>(`${SELECT_REFUND} WHERE t.id = $1`, [id]);
  if (!row) throw noSuch('refund', id, 'id', 404);
  return json(200, renderRefund(row));
}

async function chargeOf(sql: Sql, refund: RefundRow): Promise<object> {
  return renderCharge(await intentOf(sql, refund));
}

async function intentOf(sql: Sql, { payment_intent }: RefundRow): Promise<PaymentIntentRow> {
  const [row] = await sql.query<PaymentIntentRow>(`${SELECT_PAYMENT_INTENT} WHERE t.id = $1`, [payment_intent]);
  return row!;
}

const SELECT_REFUND = `
  SELECT t.*, i.charge FROM sandbox.refunds t JOIN sandbox.payment_intents i ON i.id = t.payment_intent`;

const LISTING: Listing<RefundRow> = {
  url: '/v1/refunds',
  kind: 'refund',
  table: 'sandbox.refunds',
  select: SELECT_REFUND,
  filters: { payment_intent: 't.payment_intent', charge: 'i.charge' },
  render: renderRefund,
  expandable: { payment_intent: async (sql, refund) => renderPaymentIntent(await intentOf(sql, refund)) },
};

export function listRefunds(sql: Sql, query: string): Promise<Reply> {
  return list(sql, LISTING, query);
}

/** https://docs.stripe.com/api/refunds/object */
function renderRefund(row: RefundRow): object {
  return {
    id: row.id,
    object: 'refund',
    amount: row.amount,
    balance_transaction: null,
    charge: row.charge,
    created: row.created,
    currency: row.currency,
    ...(row.failure_reason !== null && { failure_reason: row.failure_reason }),
    metadata: row.metadata,
    payment_intent: row.payment_intent,
    reason: row.reason,
    receipt_number: null,
    source_transfer_reversal: null,
    status: row.status,
    transfer_reversal: null,
  };
}
