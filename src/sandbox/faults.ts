import type { Sql } from './sandbox-database.js';

/** The calls that move money, or try to. */
export const OPERATIONS = ['payment_intents.create', 'refunds.create', 'bank_transfers.create'] as const;
export type Operation = (typeof OPERATIONS)[number];

export const FAULTS = ['drop-response', 'delay', 'error-500', 'error-503', 'reset-connection'] as const;
export type FaultName = (typeof FAULTS)[number];

/** Something that goes wrong with one call. */
export interface Fault {
  readonly fault: FaultName;
  /** How long the answer, or the end of the connection, waits. */
  readonly delayMs: number;
}

/** One row for each call that is to fail: then to take one is to delete it. */
export async function armFault(sql: Sql, operation: Operation, { fault, delayMs }: Fault, times: number) {
  await sql.query(
    `INSERT INTO sandbox.faults (operation, fault, delay_ms)
     SELECT $1, $2, $3 FROM generate_series(1, $4)`,
    [operation, fault, delayMs, times],
  );
}

export async function clearFaults(sql: Sql): Promise<void> {
  await sql.query('DELETE FROM sandbox.faults');
}

/**
 * Takes the fault that was armed first, in the transaction of the call it happens to: a call that comes to nothing leaves
 * it armed. SKIP LOCKED: of calls at the same moment each takes another one.
 */
export async function takeFault(sql: Sql, operation: Operation, but?: FaultName): Promise<Fault | undefined> {
  const [taken] = await sql.query<Fault>(
    `DELETE FROM sandbox.faults WHERE seq = (
       SELECT seq FROM sandbox.faults WHERE operation = $1 AND fault IS DISTINCT FROM $2
       ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED)
     RETURNING fault, delay_ms AS "delayMs"`,
    [operation, but ?? null],
  );
  return taken;
}
