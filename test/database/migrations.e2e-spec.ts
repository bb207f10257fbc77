import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import pg from 'pg';
import { DataSource, type MigrationInterface, type QueryRunner } from 'typeorm';
import { MIGRATIONS } from '../../migrations/index.js';
import { isOutdated, migrate } from '../../src/database/migrator.js';
import { databaseOn, runOn } from '../support/test-server.js';
import { waitFor } from '../support/wait-for.js';

const ALL = MIGRATIONS.map(({ name }) => name);

let name: string;
let url: string;
beforeEach(async () => {
  name = `empty_${randomBytes(6).toString('hex')}`;
  url = databaseOn(process.env.TEST_SERVER_URL!, name);
  await runOn(process.env.TEST_SERVER_URL!, `CREATE DATABASE ${name}`);
});
afterEach(() => runOn(process.env.TEST_SERVER_URL!, `DROP DATABASE ${name} WITH (FORCE)`));

async function query<Row extends pg.QueryResultRow>(text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

const done = async () =>
  (await query<{ name: string }>('SELECT name FROM migrations ORDER BY id')).map((row) => row.name);

/** Everything that the catalogue says of the tables, but for the migrations' own. */
async function schema(): Promise<unknown[]> {
  return query(`
    SELECT c.relname, c.relkind, c.reloptions,
           (SELECT json_agg(json_build_array(a.attname, a.atttypid::regtype::text, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)) ORDER BY a.attnum)
            FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
           (SELECT json_agg(pg_get_constraintdef(k.oid) ORDER BY k.conname) FROM pg_constraint k WHERE k.conrelid = c.oid) AS constraints,
           CASE WHEN c.relkind = 'i' THEN pg_get_indexdef(c.oid) END AS index
    FROM pg_class c
    WHERE c.relnamespace = 'public'::regnamespace AND c.relname !~ '^(migrations|PK_)'
    ORDER BY c.relname`);
}

/** Undoes the newest migration. */
async function undoLast(): Promise<void> {
  const dataSource = new DataSource({
    type: 'postgres',
    url,
    migrations: MIGRATIONS,
    migrationsTableName: 'migrations',
    installExtensions: false,
  });
  await dataSource.initialize();
  try {
    await dataSource.undoLastMigration({ transaction: 'each' });
  } finally {
    await dataSource.destroy();
  }
}

describe('migrate()', () => {
  it('brings an empty database up to date, oldest migration first, and says what it did', async () => {
    expect(await migrate(url, MIGRATIONS)).toEqual(ALL);
    expect(await done()).toEqual(ALL);
  });

  it('does nothing when it is run again', async () => {
    await migrate(url, MIGRATIONS);
    const before = await schema();

    expect(await migrate(url, MIGRATIONS)).toEqual([]);
    expect([await done(), await schema()]).toEqual([ALL, before]);
  });

  it('runs each migration once, when three run at the same moment', async () => {
    const ran = await Promise.all([migrate(url, MIGRATIONS), migrate(url, MIGRATIONS), migrate(url, MIGRATIONS)]);

    expect(ran.flat()).toEqual(ALL);
    expect(await done()).toEqual(ALL);
  });

  it('does the rest where only some were done', async () => {
    await migrate(url, MIGRATIONS.slice(0, 2));

    expect(await migrate(url, MIGRATIONS)).toEqual(ALL.slice(2));
    expect(await done()).toEqual(ALL);
  });

  it('leaves nothing of any migration when one of them fails, and lets the next run in', async () => {
    class Broken9999999999999 implements MigrationInterface {
      up = (runner: QueryRunner): Promise<void> => runner.query('SELECT 1 / 0');
      down = (): Promise<void> => Promise.resolve();
    }
    jest.spyOn(console, 'log').mockImplementation(() => undefined); // TypeORM tells of the failure, too

    await expect(migrate(url, [...MIGRATIONS, Broken9999999999999])).rejects.toMatchObject({ code: '22012' });
    jest.restoreAllMocks();
    expect(await schema()).toEqual([]);
    expect(await migrate(url, MIGRATIONS)).toEqual(ALL);
  });

  it('holds no connection and no lock afterwards', async () => {
    await migrate(url, MIGRATIONS);

    const leftovers = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
      UNION ALL SELECT 1 FROM pg_locks JOIN pg_database d ON d.oid = database
      WHERE locktype = 'advisory' AND datname = current_database()`;
    await waitFor(async () => (await query(leftovers)).length === 0, { description: 'its connections to end' });
  });

  it('reports a database that is not there', async () => {
    await expect(migrate(databaseOn(url, 'nowhere'), MIGRATIONS)).rejects.toMatchObject({ code: '3D000' });
  });
});

describe('a migration', () => {
  it('can be taken back, each of them, and then be done again with the same outcome', async () => {
    await migrate(url, MIGRATIONS);
    const full = await schema();
    expect(full.length).toBeGreaterThan(10);
    for (const _ of MIGRATIONS) await undoLast();

    expect([await done(), await schema()]).toEqual([[], []]);
    expect(await migrate(url, MIGRATIONS)).toEqual(ALL);
    expect(await schema()).toEqual(full);
  });
});

describe('isOutdated()', () => {
  it('is true of an empty database, and until every migration of this build is done', async () => {
    expect(await isOutdated(url, MIGRATIONS)).toBe(true);
    await migrate(url, MIGRATIONS.slice(0, -1));
    expect(await isOutdated(url, MIGRATIONS)).toBe(true);
    await migrate(url, MIGRATIONS);
    expect(await isOutdated(url, MIGRATIONS)).toBe(false);
  });

  it('is false of a database that is further on than this build: old replicas run on beside a deploy', async () => {
    await migrate(url, MIGRATIONS);

    expect(await isOutdated(url, MIGRATIONS.slice(0, -1))).toBe(false);
  });

  it('changes nothing', async () => {
    await isOutdated(url, MIGRATIONS);

    expect(await schema()).toEqual([]);
    expect(await query(`SELECT to_regclass('migrations') AS found`)).toEqual([{ found: null }]);
  });
});
