import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { STORED_FIGURES, StoredFiguresReader } from '../../src/operations/stored-figures.js';
import { type Cost, costOf, planOf } from '../messaging/explain.js';
import { insertKeys } from '../operations/metrics/insert-keys.js';
import { scrape } from '../operations/metrics/scrape.js';
import { ACME, TestApp } from '../support/test-app.js';

const FULL = process.env.TEST_FULL === '1';
const FEW = 1_000;
const MANY = FULL ? 1_000_000 : 100_000;
const SCRAPES = 101;
/** An index of a thousand times as much is a page or two deeper, and a scrape goes down a dozen of them. */
const DEEPER = 24;

jest.setTimeout(600_000);

let service: TestApp;
beforeAll(async () => {
  service = await TestApp.start();
  service.app.get(StoredFiguresReader).believedFor = 0;
  // Statistics are those that a test says.
  for (const table of ['idempotency_keys', 'outbox', 'orders', 'payments', 'refunds'])
    await service.database.query(`ALTER TABLE ${table} SET (autovacuum_enabled = false)`);
});
afterAll(() => service.stop());

/** Events that are published, and payments that have succeeded: what a service has most of. */
async function insertOthers(count: number): Promise<void> {
  const insert = (text: string) => service.database.query(text, [ACME.tenantId, count]);
  await insert(`
    INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload, published_at)
    SELECT $1, gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', '{}', statement_timestamp()
    FROM generate_series(1, $2::int)`);
  await insert(`
    WITH made AS (
      INSERT INTO orders (tenant_id, id, status, currency, items, total_amount, metadata, version)
      SELECT $1, gen_random_uuid(), 'paid', 'EUR', '[{"sku":"tea","quantity":1,"unitAmount":1}]', 1, '{}', 1
      FROM generate_series(1, $2::int) RETURNING id)
    INSERT INTO payments (tenant_id, id, order_id, status, amount, currency, method, operation_id, version)
    SELECT $1, gen_random_uuid(), id, 'succeeded', 1, 'EUR', 'card', gen_random_uuid(), 2 FROM made`);
}

async function medianScrape(): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < SCRAPES; n++) {
    const begun = performance.now();
    await scrape(service.as());
    times.push(performance.now() - begun);
  }
  return times.sort((one, other) => one - other)[(SCRAPES - 1) / 2]!;
}

const measure = async () => ({
  cost: await costOf(service.database, { text: STORED_FIGURES }),
  median: await medianScrape(),
});

describe('a scrape', () => {
  let few: { cost: Cost; median: number };

  it(`is measured with ${FEW} stored keys`, async () => {
    await insertKeys(service.database, ACME.tenantId, FEW);
    await insertOthers(FEW);
    await service.database.query('VACUUM ANALYZE');
    few = await measure();
    expect((await scrape(service.as()))['orders_idempotency_keys{state="completed"}']).toBeGreaterThanOrEqual(FEW);
    // What it reads is a handful of rows: the first to expire of each tenant, and the catalogue.
    expect(few.cost.visited).toBeLessThan(20);
  });

  it.each(['of a smaller table', 'that are up to date'])(
    `reads as much with ${MANY} of them, under statistics %s`,
    async (statistics) => {
      if (statistics === 'that are up to date') await service.database.query('VACUUM ANALYZE');
      else {
        await insertKeys(service.database, ACME.tenantId, MANY - FEW);
        await insertOthers(MANY / 10);
      }
      const many = await measure();
      expect((await scrape(service.as()))['orders_idempotency_keys{state="completed"}']).toBeGreaterThan(MANY / 2);
      console.log(
        `Median of ${SCRAPES} scrapes, statistics ${statistics}: ${few.median.toFixed(2)} ms with ${FEW} stored keys, ` +
          `${many.median.toFixed(2)} ms with ${MANY}: ${(many.median / few.median).toFixed(2)} times as long ` +
          `(${few.cost.buffers} and ${many.cost.buffers} pages, ${few.cost.visited} and ${many.cost.visited} rows)`,
      );
      try {
        expect(many.cost.visited).toBe(few.cost.visited);
        expect(many.cost.buffers).toBeLessThanOrEqual(few.cost.buffers + DEEPER);
      } catch (error) {
        console.log(await planOf(service.database, { text: STORED_FIGURES }));
        throw error;
      }
    },
  );
});
