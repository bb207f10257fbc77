import { Injectable } from '@nestjs/common';
import type { QueryResultRow } from 'pg';
import type { DataSource } from 'typeorm';
import { DatabaseUnavailableError } from './database.errors.js';

/**
 * The one place for statements that belong to no single tenant: the look-up of an API key, and the question which
 * tenants have work for a background job. The work itself is then done tenant by tenant in a {@link UnitOfWork}. Where
 * row-level security guards the tables, this is what needs a role of its own.
 */
@Injectable()
export class AcrossTenants {
  constructor(private readonly dataSource: DataSource) {}

  /**
   * Runs one statement for itself.
   *
   * @returns the rows; of an UPDATE or DELETE those of its RETURNING
   * @throws DatabaseUnavailableError when the database is not reachable
   */
  async query<Row extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const runner = this.dataSource.createQueryRunner();
    try {
      await runner.connect();
    } catch (error) {
      throw new DatabaseUnavailableError(error);
    }
    try {
      const result = (await runner.query(text, [...values], true)) as { records: Row[] };
      return result.records;
    } catch (error) {
      throw runner.isReleased ? new DatabaseUnavailableError(error) : error;
    } finally {
      await runner.release();
    }
  }
}
