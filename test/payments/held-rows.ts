import type { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';

/** Rows that the test holds, so that whoever wants them arrives before anybody goes on. */
export interface HeldRows {
  /** Waits until so many sessions of the service queue behind the rows, or behind one another. */
  queued(sessions: number): Promise<void>;
  /** Lets them go on, one right after the other. */
  release(): Promise<void>;
}

/**
 * Takes rows until they are released.
 *
 * @param from such as `orders WHERE id = $1`
 */
export async function holdRows(database: TestDatabase, from: string, values: unknown[]): Promise<HeldRows> {
  const client = await database.connect();
  await client.query('BEGIN');
  const { rowCount } = await client.query(`SELECT FROM ${from} FOR UPDATE`, values);
  if (!rowCount) throw new Error(`There are no rows to hold: ${from}`);
  const blocked = `datname = current_database() AND application_name = 'orders-service' AND wait_event_type = 'Lock'`;
  return {
    queued: async (sessions) => {
      await waitFor(async () => (await database.count('pg_stat_activity', blocked)) >= sessions, {
        description: `${sessions} sessions to queue`,
      });
    },
    release: async () => {
      await client.query('COMMIT');
      await client.end();
    },
  };
}
