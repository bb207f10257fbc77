import type { Operation } from './faults.js';
import type { Sql } from './sandbox-database.js';

/** A movement of money. */
export interface Movement {
  readonly operation: Operation;
  /** The provider's id; at the bank the reference that its caller sent. */
  readonly reference: string;
  readonly amount: number;
  readonly currency: string;
  readonly idempotencyKey: string | null;
}

/** In the transaction that moves the money. */
export async function recordEffect(sql: Sql, movement: Movement): Promise<void> {
  const { operation, reference, amount, currency, idempotencyKey } = movement;
  await sql.query(
    `INSERT INTO sandbox.effects (operation, reference, amount, currency, idempotency_key, created_at)
     VALUES ($1, $2, $3, $4, $5, statement_timestamp())`,
    [operation, reference, amount, currency.toUpperCase(), idempotencyKey],
  );
}

/** @param status what the call was answered; null: nothing */
export async function recordCall(sql: Sql, operation: Operation, key: string | null, status: number | null) {
  await sql.query(
    `INSERT INTO sandbox.calls (operation, idempotency_key, status, at) VALUES ($1, $2, $3, statement_timestamp())`,
    [operation, key, status],
  );
}

/** Everything that has moved money and every call that asked for it, oldest first. */
export async function readLedger(sql: Sql) {
  const effects = await sql.query<Movement & { createdAt: Date }>(
    `SELECT operation, reference, amount, currency, idempotency_key AS "idempotencyKey", created_at AS "createdAt"
     FROM sandbox.effects ORDER BY seq`,
  );
  const calls = await sql.query<{
    operation: Operation;
    idempotencyKey: string | null;
    status: number | null;
    at: Date;
  }>('SELECT operation, idempotency_key AS "idempotencyKey", status, at FROM sandbox.calls ORDER BY seq');
  return { effects, calls };
}
