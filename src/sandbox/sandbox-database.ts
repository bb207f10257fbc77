import pg from 'pg';
import { SandboxError } from './sandbox-error.js';
import { SCHEMA_LOCK, SCHEMA_VERSIONS } from './sandbox-schema.js';

/** Statements go through this, in a transaction or each in one of its own. */
export interface Sql {
  /** `bigint` arrives as a number: every count and amount here is a safe one. */
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>;
}

const INT8 = 20;
const SESSION_LIMITS = `SET statement_timeout = '10s'; SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '15s'`;

const parserOf = ((oid: number, format?: 'text'): unknown =>
  oid === INT8 ? Number : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser;

/** The schema `sandbox`, in whatever database the sandbox is given: everything it knows is there and outlives it. */
export class SandboxDatabase implements Sql {
  private constructor(private readonly pool: pg.Pool) {}

  /** @throws SandboxError when the database cannot be reached or does not let the schema be made */
  static async open(url: string): Promise<SandboxDatabase> {
    const pool = new pg.Pool({
      connectionString: url,
      application_name: 'orders-service sandbox',
      max: 10,
      connectionTimeoutMillis: 5_000,
      query_timeout: 15_000,
      types: { getTypeParser: parserOf },
      onConnect: (client) => client.query(SESSION_LIMITS) as unknown as void,
    });
    // A connection may break at any moment, idle or in use; without a listener that would end the process.
    pool.on('error', () => undefined);
    pool.on('connect', (client) => client.on('error', () => undefined));
    const database = new SandboxDatabase(pool);
    try {
      await database.transaction(bringUpToDate);
    } catch (error) {
      await database.close();
      throw new SandboxError(`The sandbox cannot use its database: ${(error as Error).message}`, { cause: error });
    }
    return database;
  }

  async query<Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const { rows } = await this.pool.query(text, [...values]);
    return rows as Row[];
  }

  /** Commits what `work` did, or nothing of it when it throws. */
  async transaction<T>(work: (sql: Sql) => Promise<T>): Promise<T> {
    const client = await this.pool.connect();
    try {
      await client.query('BEGIN');
      const result = await work({
        query: async <Row extends object>(text: string, values: readonly unknown[] = []) => {
          const { rows } = await client.query(text, [...values]);
          return rows as Row[];
        },
      });
      // On a transaction that failed earlier, Postgres answers ROLLBACK to a COMMIT, and that is no error.
      const { command } = await client.query('COMMIT');
      if (command !== 'COMMIT') throw new Error(`Postgres answered ${command} to COMMIT`);
      client.release();
      return result;
    } catch (error) {
      await client.query('ROLLBACK').then(
        () => client.release(),
        (broken: Error) => client.release(broken),
      );
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.pool.end();
  }
}

/** Sandboxes that start at once on one database queue here. */
async function bringUpToDate(sql: Sql): Promise<void> {
  await sql.query('SELECT pg_advisory_xact_lock($1)', [SCHEMA_LOCK]);
  // Asked first: IF NOT EXISTS wants the right to create even where there is nothing to do.
  const [schema] = await sql.query<{ present: boolean }>(
    `SELECT to_regclass('sandbox.schema_versions') IS NOT NULL AS present`,
  );
  if (!schema?.present) {
    await sql.query('CREATE SCHEMA IF NOT EXISTS sandbox');
    await sql.query('CREATE TABLE sandbox.schema_versions (version int PRIMARY KEY)');
  }
  const [last] = await sql.query<{ version: number }>(
    'SELECT coalesce(max(version), 0) AS version FROM sandbox.schema_versions',
  );
  for (let version = last!.version + 1; version <= SCHEMA_VERSIONS.length; version += 1) {
    await sql.query(SCHEMA_VERSIONS[version - 1]!);
    await sql.query('INSERT INTO sandbox.schema_versions VALUES ($1)', [version]);
  }
}
