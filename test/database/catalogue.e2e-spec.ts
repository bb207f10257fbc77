import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { TestDatabase } from '../support/test-database.js';

// One tenant on one shard (Citus) stands on this: whatever table somebody adds, it must look like the others.

/** Small, the same on every node, and not of one tenant. */
const REFERENCE_TABLES = ['tenants', 'api_keys', 'migrations'];

/** What a table of tenants' data lacks, in words that name it; of every table in schema `public`. */
async function faultsOf(database: TestDatabase): Promise<string[]> {
  const faults = await database.query<{ fault: string }>(
    `WITH tenant_table AS (
       SELECT c.oid, c.relname AS name, t.attnum AS tenant_id, t.atttypid, t.attnotnull
       FROM pg_class c
       LEFT JOIN pg_attribute t ON t.attrelid = c.oid AND t.attname = 'tenant_id' AND NOT t.attisdropped
       WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relname = ANY ($1)
     )
     SELECT format('%s has no tenant_id', name) AS fault FROM tenant_table WHERE tenant_id IS NULL
     UNION ALL
     SELECT format('%s.tenant_id is not uuid NOT NULL', name) FROM tenant_table
     WHERE tenant_id IS NOT NULL AND NOT (atttypid = 'uuid'::regtype AND attnotnull)
     UNION ALL
     SELECT format('%s has no primary key', name) FROM tenant_table t
     WHERE NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indisprimary)
     UNION ALL
     SELECT format('%s does not begin with tenant_id', i.indexrelid::regclass)
     FROM tenant_table t JOIN pg_index i ON i.indrelid = t.oid
     WHERE (i.indisunique OR i.indisexclusion) AND i.indkey[0] IS DISTINCT FROM t.tenant_id
     UNION ALL
     SELECT format('%s of %s does not pair tenant_id with tenant_id first', f.conname, t.name)
     FROM tenant_table t JOIN pg_constraint f ON f.conrelid = t.oid AND f.contype = 'f'
     JOIN tenant_table target ON target.oid = f.confrelid
     WHERE f.conkey[1] IS DISTINCT FROM t.tenant_id OR f.confkey[1] IS DISTINCT FROM target.tenant_id
     ORDER BY 1`,
    [REFERENCE_TABLES],
  );
  return faults.map(({ fault }) => fault);
}

describe('every table of tenant data (B8)', () => {
  let database: TestDatabase;
  beforeAll(async () => (database = await TestDatabase.create()));
  afterAll(() => database.drop());
  afterEach(() => database.query('DROP TABLE IF EXISTS bad, good CASCADE'));

  it('has tenant_id first in its primary key, in every unique index and in every foreign key', async () => {
    expect(await faultsOf(database)).toEqual([]);
  });

  it('is looked at: the tables that are known today are among them', async () => {
    const tables = await database.query<{ name: string }>(
      `SELECT relname AS name FROM pg_class
       WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND NOT relname = ANY ($1)`,
      [REFERENCE_TABLES],
    );
    const names = tables.map(({ name }) => name);
    const known = ['orders', 'outbox', 'outbox_heads', 'idempotency_keys', 'feeds', 'feed_batches'];
    expect(names).toEqual(expect.arrayContaining(known));
  });

  it.each([
    ['id uuid PRIMARY KEY', ['bad has no tenant_id', 'bad_pkey does not begin with tenant_id']],
    ['tenant_id text NOT NULL, id uuid, PRIMARY KEY (tenant_id, id)', ['bad.tenant_id is not uuid NOT NULL']],
    ['tenant_id uuid, id uuid', ['bad.tenant_id is not uuid NOT NULL', 'bad has no primary key']],
    ['tenant_id uuid NOT NULL, id uuid, PRIMARY KEY (id)', ['bad_pkey does not begin with tenant_id']],
    ['tenant_id uuid, id uuid, PRIMARY KEY (id, tenant_id)', ['bad_pkey does not begin with tenant_id']],
    [
      'tenant_id uuid, id uuid, ref text CONSTRAINT bad_ref UNIQUE, PRIMARY KEY (tenant_id, id)',
      ['bad_ref does not begin with tenant_id'],
    ],
    [
      `tenant_id uuid, id uuid, at tstzrange, CONSTRAINT bad_at EXCLUDE USING gist (at WITH &&), PRIMARY KEY (tenant_id, id)`,
      ['bad_at does not begin with tenant_id'],
    ],
  ])('would be caught: (%s)', async (columns, faults) => {
    await database.query(`CREATE TABLE bad (${columns})`);

    expect((await faultsOf(database)).sort()).toEqual([...faults].sort());
  });

  it.each([
    'CREATE UNIQUE INDEX bad_index ON good (other)',
    'CREATE UNIQUE INDEX bad_index ON good (lower(other::text), tenant_id)',
    'CREATE UNIQUE INDEX bad_index ON good (other, tenant_id) WHERE other IS NOT NULL',
  ])('would be caught: %s', async (statement) => {
    await database.query('CREATE TABLE good (tenant_id uuid, id uuid, other uuid, PRIMARY KEY (tenant_id, id))');
    expect(await faultsOf(database)).toEqual([]);
    await database.query(statement);

    expect(await faultsOf(database)).toEqual(['bad_index does not begin with tenant_id']);
  });

  it.each([
    'FOREIGN KEY (id, tenant_id) REFERENCES orders (id, tenant_id)',
    'FOREIGN KEY (id, tenant_id) REFERENCES orders (tenant_id, id)',
    'FOREIGN KEY (tenant_id, id) REFERENCES orders (id, tenant_id)',
  ])('would be caught: %s', async (constraint) => {
    await database.query('CREATE UNIQUE INDEX orders_swapped ON orders (id, tenant_id)');
    try {
      await database.query(`CREATE TABLE good (tenant_id uuid, id uuid, PRIMARY KEY (tenant_id, id),
                                               FOREIGN KEY (tenant_id, id) REFERENCES orders (tenant_id, id))`);
      await database.query(`ALTER TABLE good ADD CONSTRAINT bad_reference ${constraint}`);

      expect(await faultsOf(database)).toEqual([
        'bad_reference of good does not pair tenant_id with tenant_id first',
        'orders_swapped does not begin with tenant_id',
      ]);
    } finally {
      await database.query('DROP TABLE good');
      await database.query('DROP INDEX orders_swapped');
    }
  });
});
