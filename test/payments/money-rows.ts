import type { TestDatabase } from '../support/test-database.js';

const TABLES = [
  ...['orders', 'payments', 'refunds', 'money_movements', 'surplus_charges', 'payment_reviews'],
  ...['outbox', 'idempotency_keys'],
];

/**
 * Every row that a payment can write, with the transaction that wrote it (`xmin`): whoever writes one again, be it with the
 * same content, changes this.
 */
export async function moneyRows(database: TestDatabase): Promise<Record<string, string[]>> {
  const rows: Record<string, string[]> = {};
  for (const table of TABLES) {
    const found = await database.query<{ row: string }>(
      `SELECT xmin::text || t::text AS row FROM ${table} t ORDER BY 1`,
    );
    rows[table] = found.map(({ row }) => row);
  }
  return rows;
}
