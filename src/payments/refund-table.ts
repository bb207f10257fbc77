import type { EntityManager } from 'typeorm';
import type { Transaction } from '../database/transaction.js';
import type { TimePosition } from '../http/time-position.js';
import { type Refund, REFUND_COLUMNS } from './refund.entity.js';

interface NewRow extends Pick<Refund, 'id' | 'paymentId' | 'amount' | 'currency'> {
  readonly reason?: string | undefined;
  readonly reference?: string | undefined;
  readonly operationId?: string;
  readonly providerRef?: string;
}

/**
 * Inserts a pending refund, unless its reference or the provider's is taken.
 *
 * @returns `undefined` when it is
 */
export async function insertRefund(transaction: Transaction, refund: NewRow): Promise<Refund | undefined> {
  const { id, paymentId, amount, currency, reason, reference, operationId, providerRef } = refund;
  const [inserted] = await transaction.query<Refund>(
    `INSERT INTO refunds
       (tenant_id, id, payment_id, amount, currency, status, reason, reference, provider_ref, operation_id, version)
     VALUES ($1, $2, $3, $4, $5, 'pending', $6, $7, $8, $9, 1)
     ON CONFLICT DO NOTHING
     RETURNING ${REFUND_COLUMNS}`,
    [transaction.tenantId, id, paymentId, amount, currency, reason, reference, providerRef, operationId],
  );
  return inserted;
}

/** The refund as it is, without its row's lock. */
export async function findRefund(
  manager: Pick<EntityManager, 'query'>,
  tenantId: string,
  id: string,
): Promise<Refund | undefined> {
  const [refund] = await manager.query<Refund[]>(
    `SELECT ${REFUND_COLUMNS} FROM refunds WHERE tenant_id = $1 AND id = $2`,
    [tenantId, id],
  );
  return refund;
}

/** The id of the payment's refund with that reference. */
export async function findRefundOfReference(
  transaction: Transaction,
  paymentId: string,
  reference: string,
): Promise<string | undefined> {
  const [refund] = await transaction.query<{ id: string }>(
    'SELECT id FROM refunds WHERE tenant_id = $1 AND payment_id = $2 AND reference = $3',
    [transaction.tenantId, paymentId, reference],
  );
  return refund?.id;
}

/** Takes the refund's row, by our id or by the provider's. The payment's must be held already. */
export async function lockRefund(
  transaction: Transaction,
  paymentId: string,
  by: { readonly id: string } | { readonly providerRef: string },
): Promise<Refund | undefined> {
  const [column, value] = 'id' in by ? ['id', by.id] : ['provider_ref', by.providerRef];
  const [refund] = await transaction.query<Refund>(
    `SELECT ${REFUND_COLUMNS} FROM refunds WHERE tenant_id = $1 AND payment_id = $2 AND ${column} = $3 FOR UPDATE`,
    [transaction.tenantId, paymentId, value],
  );
  return refund;
}

/** Moves a refund from the state in which it was read to another, and from no other. */
export async function moveRefund(
  transaction: Transaction,
  read: Refund,
  to: Pick<Refund, 'status'> & Partial<Pick<Refund, 'providerRef'>>,
): Promise<Refund> {
  const [refund] = await transaction.query<Refund>(
    `UPDATE refunds SET
       status = $4, provider_ref = coalesce($5, provider_ref), version = version + 1, updated_at = statement_timestamp()
     WHERE tenant_id = $1 AND id = $2 AND status = $3
     RETURNING ${REFUND_COLUMNS}`,
    [transaction.tenantId, read.id, read.status, to.status, to.providerRef ?? null],
  );
  if (!refund) throw new Error(`Refund ${read.id} is not ${read.status} any more`);
  return refund;
}

/** Notes how the provider calls a refund whose outcome it still keeps open. */
export async function noteRefundRef(transaction: Transaction, id: string, providerRef: string): Promise<void> {
  await transaction.query(
    `UPDATE refunds SET provider_ref = $3 WHERE tenant_id = $1 AND id = $2 AND provider_ref IS NULL`,
    [transaction.tenantId, id, providerRef],
  );
}

/** The refunds of a payment behind `after`, oldest first. */
export async function listRefunds(
  manager: EntityManager,
  tenantId: string,
  paymentId: string,
  after: TimePosition | undefined,
  limit: number,
): Promise<(Refund & { readonly position: string })[]> {
  return manager.query<(Refund & { readonly position: string })[]>(
    `SELECT ${REFUND_COLUMNS}, (extract(epoch FROM created_at) * 1000000)::bigint AS position
     FROM refunds
     WHERE tenant_id = $1 AND payment_id = $2
       AND ($3::bigint IS NULL
         OR (created_at, id) > (timestamptz 'epoch' + $3::bigint * interval '1 microsecond', $4::uuid))
     ORDER BY created_at, id LIMIT $5`,
    [tenantId, paymentId, after?.createdAt, after?.id, limit],
  );
}
