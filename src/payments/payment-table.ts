import type { EntityManager } from 'typeorm';
import type { Transaction } from '../database/transaction.js';
import type { TimePosition } from '../http/time-position.js';
import { type Payment, PAYMENT_COLUMNS } from './payment.entity.js';

/**
 * Inserts a pending payment, unless a payment of the order lives: the unique index decides, whatever was looked at before.
 *
 * @returns `undefined` when one lives
 */
export async function insertPayment(
  transaction: Transaction,
  payment: Pick<Payment, 'id' | 'orderId' | 'amount' | 'currency' | 'method' | 'receiptEmail' | 'operationId'>,
): Promise<Payment | undefined> {
  const { id, orderId, amount, currency, method, receiptEmail, operationId } = payment;
  const [inserted] = await transaction.query<Payment>(
    `INSERT INTO payments
       (tenant_id, id, order_id, status, amount, currency, method, receipt_email, operation_id, version)
     VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, $8, 1)
     ON CONFLICT (tenant_id, order_id) WHERE status IN ('pending', 'succeeded') DO NOTHING
     RETURNING ${PAYMENT_COLUMNS}`,
    [transaction.tenantId, id, orderId, amount, currency, method, receiptEmail, operationId],
  );
  return inserted;
}

/** The payment as it is, without its row's lock. */
export async function findPayment(
  manager: Pick<EntityManager, 'query'>,
  tenantId: string,
  id: string,
): Promise<Payment | undefined> {
  const [payment] = await manager.query<Payment[]>(
    `SELECT ${PAYMENT_COLUMNS} FROM payments WHERE tenant_id = $1 AND id = $2`,
    [tenantId, id],
  );
  return payment;
}

/** Takes the payment's row until the end of the transaction. The order's must be held already. */
export async function lockPayment(transaction: Transaction, id: string): Promise<Payment | undefined> {
  const [payment] = await transaction.query<Payment>(
    `SELECT ${PAYMENT_COLUMNS} FROM payments WHERE tenant_id = $1 AND id = $2 FOR UPDATE`,
    [transaction.tenantId, id],
  );
  return payment;
}

/**
 * Moves a payment from the state in which it was read to another, and from no other: a fact that comes late or twice
 * finds nothing to move.
 *
 * @throws Error when it was not in that state any more, which a caller that holds the row's lock never sees
 */
export async function movePayment(
  transaction: Transaction,
  read: Payment,
  to: Pick<Payment, 'status'> & Partial<Pick<Payment, 'providerRef' | 'declineCode'>>,
): Promise<Payment> {
  const [payment] = await transaction.query<Payment>(
    `UPDATE payments SET
       status = $4, provider_ref = coalesce($5, provider_ref), decline_code = $6,
       version = version + 1, updated_at = statement_timestamp()
     WHERE tenant_id = $1 AND id = $2 AND status = $3
     RETURNING ${PAYMENT_COLUMNS}`,
    [transaction.tenantId, read.id, read.status, to.status, to.providerRef ?? null, to.declineCode ?? null],
  );
  if (!payment) throw new Error(`Payment ${read.id} is not ${read.status} any more`);
  return payment;
}

/** Notes how the provider calls a payment whose outcome it still keeps open. Not a change that clients wait for. */
export async function notePaymentRef(transaction: Transaction, id: string, providerRef: string): Promise<void> {
  await transaction.query(
    `UPDATE payments SET provider_ref = $3 WHERE tenant_id = $1 AND id = $2 AND provider_ref IS NULL`,
    [transaction.tenantId, id, providerRef],
  );
}

/**
 * Holds money for a refund, if there is as much left: one conditional UPDATE, so that of two at once the second sees what
 * the first has taken. Refunds whose outcome is not known yet count.
 *
 * @param amount minor units
 * @returns whether it was reserved: not where the payment has not succeeded or less is left
 */
export async function reserveRefund(transaction: Transaction, paymentId: string, amount: number): Promise<boolean> {
  const reserved = await transaction.query(
    `UPDATE payments SET reserved_amount = reserved_amount + $3
     WHERE tenant_id = $1 AND id = $2 AND status = 'succeeded' AND refunded_amount + reserved_amount + $3 <= amount
     RETURNING 1`,
    [transaction.tenantId, paymentId, amount],
  );
  return reserved.length > 0;
}

/** What a refund's change of state does to its payment's sums. */
export interface SumChange {
  readonly refunded?: number;
  readonly reserved?: number;
}

/**
 * Moves money between the sums of a payment whose row is held. What is reserved is not shown: only what is refunded makes
 * a new version, and a version must not show two times of change.
 *
 * @returns `undefined` when more would be refunded than was paid: then nothing is changed
 */
export async function changeSums(
  transaction: Transaction,
  id: string,
  { refunded = 0, reserved = 0 }: SumChange,
): Promise<Payment | undefined> {
  const [payment] = await transaction.query<Payment>(
    `UPDATE payments SET
       refunded_amount = refunded_amount + $3, reserved_amount = greatest(0, reserved_amount + $4),
       version = version + CASE WHEN $3 = 0 THEN 0 ELSE 1 END,
       updated_at = CASE WHEN $3 = 0 THEN updated_at ELSE statement_timestamp() END
     WHERE tenant_id = $1 AND id = $2 AND refunded_amount + $3 <= amount
     RETURNING ${PAYMENT_COLUMNS}`,
    [transaction.tenantId, id, refunded, reserved],
  );
  return payment;
}

/** The payments of an order behind `after`, oldest first. */
export async function listPayments(
  manager: EntityManager,
  tenantId: string,
  orderId: string,
  after: TimePosition | undefined,
  limit: number,
): Promise<(Payment & { readonly position: string })[]> {
  return manager.query<(Payment & { readonly position: string })[]>(
    `SELECT ${PAYMENT_COLUMNS}, (extract(epoch FROM created_at) * 1000000)::bigint AS position
     FROM payments
     WHERE tenant_id = $1 AND order_id = $2
       AND ($3::bigint IS NULL
         OR (created_at, id) > (timestamptz 'epoch' + $3::bigint * interval '1 microsecond', $4::uuid))
     ORDER BY created_at, id LIMIT $5`,
    [tenantId, orderId, after?.createdAt, after?.id, limit],
  );
}
