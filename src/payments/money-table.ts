import { v7 as uuidv7 } from 'uuid';
import type { Transaction } from '../database/transaction.js';
import type { Effect } from './providers/payment-provider.js';
import type { Payment } from './payment.entity.js';
import { providerOf } from './providers/payment-providers.js';

export type MovementKind = 'charge' | 'refund' | 'refund_reversal';

/** Whether that movement of the provider is booked. Asked for under the order's lock. */
export async function isBooked(
  transaction: Transaction,
  payment: Payment,
  kind: MovementKind,
  reference: string,
): Promise<boolean> {
  const rows = await transaction.query(
    `SELECT FROM money_movements WHERE tenant_id = $1 AND provider = $2 AND provider_ref = $3 AND kind = $4`,
    [transaction.tenantId, providerOf(payment.method), reference, kind],
  );
  return rows.length > 0;
}

/**
 * Books what moved. The table is only ever added to, and its primary key admits a movement of the provider once.
 *
 * @param kind a refund counts negative
 */
export async function book(
  transaction: Transaction,
  payment: Payment,
  kind: MovementKind,
  effect: Effect,
  { refundId = null, surplus = false }: { readonly refundId?: string | null; readonly surplus?: boolean } = {},
): Promise<void> {
  await transaction.query(
    `INSERT INTO money_movements
       (tenant_id, provider, provider_ref, kind, payment_id, refund_id, amount, currency, surplus)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      transaction.tenantId,
      providerOf(payment.method),
      effect.reference,
      kind,
      payment.id,
      refundId,
      kind === 'refund' ? -effect.amount : effect.amount,
      effect.currency,
      surplus,
    ],
  );
}

/** Notes that a charge is to be given back, because its payment or its order has been paid by another. Once. */
export async function oweSurplus(transaction: Transaction, payment: Payment, effect: Effect): Promise<void> {
  await transaction.query(
    `INSERT INTO surplus_charges (tenant_id, id, payment_id, provider, charge_ref, amount, currency, status)
     VALUES ($1, $2, $3, $4, $5, $6, $7, 'due')
     ON CONFLICT (tenant_id, provider, charge_ref) DO NOTHING`,
    [
      transaction.tenantId,
      uuidv7(),
      payment.id,
      providerOf(payment.method),
      effect.reference,
      effect.amount,
      effect.currency,
    ],
  );
}

/** Asks for a person's decision, once as long as the question is open. */
export async function askForReview(
  transaction: Transaction,
  paymentId: string,
  question: { readonly subjectId: string; readonly reason: string; readonly detail: string },
): Promise<void> {
  const { subjectId, reason, detail } = question;
  await transaction.query(
    `INSERT INTO payment_reviews (tenant_id, id, payment_id, subject_id, reason, detail)
     VALUES ($1, $2, $3, $4, $5, $6)
     ON CONFLICT (tenant_id, subject_id, reason) WHERE resolved_at IS NULL DO NOTHING`,
    [transaction.tenantId, uuidv7(), paymentId, subjectId, reason, detail],
  );
}

/** Withdraws the question what became of it: now it is known. Nothing waits for that, so it travels with COMMIT. */
export function withdrawQuestion(
  transaction: Transaction,
  subjectId: string,
  reason: 'undecided' | 'surplus-not-returned' = 'undecided',
): void {
  transaction.closeWith({
    text: `UPDATE payment_reviews SET resolved_at = statement_timestamp(), resolution = 'settled'
           WHERE tenant_id = $1 AND subject_id = $2 AND reason = $3 AND resolved_at IS NULL`,
    values: [transaction.tenantId, subjectId, reason],
  });
}
