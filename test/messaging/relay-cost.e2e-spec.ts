import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { freeHeadsStatement, frontStatement, TENANTS_WITH_EVENTS } from '../../src/messaging/relay-store.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { type Cost, costOf, planOf } from './explain.js';
import { insertEvents } from './outbox-writer.js';

/** Statistics as after a deploy: there are none, or those of another day. Autovacuum must not mend that meanwhile. */
const STATISTICS = ['that are missing', 'that are up to date', 'of a table that was empty'] as const;
const FREE = 10;

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.create();
  await database.query('ALTER TABLE outbox SET (autovacuum_enabled = false)');
});
afterAll(() => database.drop());
beforeEach(async () => {
  await database.clear();
  await database.query(`UPDATE pg_class SET reltuples = -1 WHERE relname LIKE 'outbox%'`);
  await database.query(`DELETE FROM pg_statistic WHERE starelid = 'outbox'::regclass`);
});

/** Aggregates whose first event is taken (or dead) and that stand before all others, with events behind it. */
async function insertBlocked(aggregates: number, versions: number, by = 'lease_until'): Promise<void> {
  await database.query(
    `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload, ${by})
     SELECT $1, gen_random_uuid(), 'order', lpad(to_hex(a), 32, '0')::uuid, v, 'order.updated', '{}',
            CASE v WHEN 1 THEN statement_timestamp() + interval '1 hour' END
     FROM generate_series(1, $2::int) a, generate_series(1, $3::int) v`,
    [ACME.tenantId, aggregates, versions],
  );
}

async function costWith(statistics: (typeof STATISTICS)[number], fill: () => Promise<void>): Promise<Cost> {
  await database.clear();
  if (statistics === 'of a table that was empty') await database.query('ANALYZE outbox');
  await fill();
  if (statistics === 'that are up to date') await database.query('ANALYZE outbox');
  const found = await database.query<{ id: string }>(freeHeadsStatement(ACME.tenantId).text, [ACME.tenantId]);
  expect(found).toHaveLength(FREE);
  return costOf(database, freeHeadsStatement(ACME.tenantId));
}

const free = () => insertEvents(database, ACME.tenantId, { aggregates: FREE, versions: 3 });

describe.each(STATISTICS)('the look for free events, under statistics %s', (statistics) => {
  it.each(['lease_until', 'available_at', 'dead_at'])(
    'costs the same whether 20 or 20,000 events wait behind one that is not free (%s)',
    async (by) => {
      const cost = async (versions: number) =>
        costWith(statistics, async () => {
          await insertBlocked(1, versions, by);
          await free();
        });
      const [few, many] = [await cost(20), await cost(20_000)];

      expect(many.visited).toBeLessThanOrEqual(FREE + 2);
      expect(many.buffers).toBeLessThan(6 * (FREE + 2)); // down the index once for each
      console.log(
        `1 blocked (${by}, ${statistics}): ${few.milliseconds} ms before 20, ${many.milliseconds} ms before 20,000`,
      );
    },
  );

  it('grows with the aggregates that are blocked, by a few pages for each', async () => {
    const cost = async (aggregates: number) =>
      costWith(statistics, async () => {
        await insertBlocked(aggregates, 2);
        await free();
      });
    for (const aggregates of [1_000, 10_000]) {
      const { visited, buffers, milliseconds } = await cost(aggregates);
      expect(visited).toBeLessThanOrEqual(aggregates + FREE + 1);
      expect(buffers).toBeLessThan(6 * (aggregates + FREE + 1));
      console.log(`${aggregates} blocked (${statistics}): ${buffers} pages, ${milliseconds} ms`);
    }
  });

  it('passes by no event that is published already', async () => {
    const { visited } = await costWith(statistics, async () => {
      await insertBlocked(1, 20_000);
      await database.query(`UPDATE outbox SET published_at = statement_timestamp() WHERE aggregateversion < 20000`);
      await database.query('VACUUM outbox');
      await insertEvents(database, ACME.tenantId, { aggregates: FREE - 1, versions: 3 });
    });
    expect(visited).toBeLessThanOrEqual(FREE + 2);
  });

  it('takes of an aggregate the first events, whatever stands behind them', async () => {
    await costWith(statistics, async () => {
      await insertBlocked(1, 20_000);
      await free();
    });
    const [aggregate] = await database.query<{ id: string }>('SELECT DISTINCT aggregateid AS id FROM outbox LIMIT 1');
    const { visited } = await costOf(database, frontStatement(ACME.tenantId, [aggregate!.id]));
    expect(visited).toBeLessThanOrEqual(21);
  });
});

describe.each(STATISTICS)('the look for tenants with events, under statistics %s', (statistics) => {
  it('costs a step for each tenant that has any, however many events there are', async () => {
    const cost = async (tenants: number, unpublished: number, published: number) => {
      await database.clear();
      if (statistics === 'of a table that was empty') await database.query('ANALYZE outbox');
      const insert = (versions: number, at: string) =>
        database.query(
          `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload, published_at)
           SELECT lpad(to_hex(t), 32, '0')::uuid, gen_random_uuid(), 'order', gen_random_uuid(), v, 'x', '{}', ${at}
           FROM generate_series(1, $1::int) t, generate_series(1, $2::int) v`,
          [tenants, versions],
        );
      await insert(published, 'statement_timestamp()');
      await insert(unpublished, 'NULL');
      if (statistics === 'that are up to date') await database.query('ANALYZE outbox');
      expect(await database.query(TENANTS_WITH_EVENTS)).toHaveLength(tenants);
      return costOf(database, { text: TENANTS_WITH_EVENTS });
    };
    const [few, many] = [await cost(200, 1, 1), await cost(200, 50, 100)];

    expect(many.visited).toBeLessThanOrEqual(201);
    expect(many.buffers).toBeLessThan(6 * 201);
    console.log(`200 tenants (${statistics}): ${few.milliseconds} ms for 400 rows, ${many.milliseconds} ms for 30,000`);
  });
});

it('is shown by its plan', async () => {
  await insertBlocked(1, 20_000);
  await free();
  console.log(await planOf(database, freeHeadsStatement(ACME.tenantId)));
});
