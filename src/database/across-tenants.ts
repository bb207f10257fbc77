import type { QueryResultRow } from 'pg';
import type { DataSource } from 'typeorm';
import { onConnection } from './connection.js';

/**
 * The one place for statements that belong to no single tenant: the look-up of an API key, and the question which
 * tenants have work for a background job. The work itself is then done tenant by tenant in a {@link UnitOfWork}. Where
 * row-level security guards the tables, this is what needs a role of its own.
 */
export class AcrossTenants {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Runs one statement for itself.
   *
   * @returns the rows; of an UPDATE or DELETE those of its RETURNING
   * @throws DatabaseUnavailableError when the database is not reachable
   */
  async query<Row extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    return onConnection(this.dataSource, async (runner) => {
      const { records } = (await runner.query(text, [...values], true)) as { records: Row[] };
      return records;
    });
  }
}
