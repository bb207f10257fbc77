import pg from 'pg';
import { DataSource, type DataSourceOptions } from 'typeorm';

export type Migrations = NonNullable<DataSourceOptions['migrations']>;

/** Any fixed number will do, as long as every process of this service uses the same. */
const LOCK = 7_204_501_833;

/**
 * Brings the schema up to date. TypeORM takes no lock of its own, and three processes that migrate at once break each
 * other; here they queue behind an advisory lock of the session, so connect directly and not through PgBouncer in
 * transaction mode.
 *
 * @returns the names of the migrations that ran, oldest first
 */
export async function migrate(url: string, migrations: Migrations): Promise<string[]> {
  const guard = new pg.Client({ connectionString: url, application_name: 'orders-service migrate' });
  await guard.connect();
  try {
    await guard.query('SELECT pg_advisory_lock($1)', [LOCK]);
    const dataSource = await new DataSource(optionsOf(url, migrations)).initialize();
    try {
      return (await dataSource.runMigrations({ transaction: 'all' })).map((migration) => migration.name);
    } finally {
      await dataSource.destroy();
    }
  } finally {
    await guard.end();
  }
}

/** Whether the database lacks a migration that this build of the service relies on. */
export async function isOutdated(url: string, migrations: Migrations): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  await client.connect();
  try {
    const { rows } = await client.query<{ present: boolean }>(
      `SELECT to_regclass('migrations') IS NOT NULL AS present`,
    );
    if (!rows[0]?.present) return true;
    const done = await client.query<{ name: string }>('SELECT name FROM migrations');
    const names = new Set(done.rows.map(({ name }) => name));
    return (migrations as { name: string }[]).some(({ name }) => !names.has(name));
  } finally {
    await client.end();
  }
}

function optionsOf(url: string, migrations: Migrations): DataSourceOptions {
  return { type: 'postgres', url, installExtensions: false, migrations, migrationsTableName: 'migrations' };
}
