import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { STORED_FIGURES, StoredFiguresReader } from '../../src/operations/stored-figures.js';
import { costOf, planOf } from '../messaging/explain.js';
import { insertKeys } from '../operations/metrics/insert-keys.js';
import { scrape } from '../operations/metrics/scrape.js';
import { ACME, TestApp } from '../support/test-app.js';

const FULL = process.env.TEST_FULL === '1';
const FEW = 1_000;
const MANY = FULL ? 1_000_000 : 100_000;
const SCRAPES = 101;
/** An index of a thousand times as much is a page or two deeper, and a scrape goes down a dozen of them. */
const DEEPER = 24;
const TABLES = ['idempotency_keys', 'outbox', 'orders', 'payments', 'refunds'];

jest.setTimeout(600_000);

/** Two services, so that what else the machine does meanwhile slows down the scrapes of both. */
let few: TestApp;
let many: TestApp;
beforeAll(async () => {
  few = await TestApp.start();
  many = await TestApp.start();
  for (const { app, database } of [few, many]) {
    app.get(StoredFiguresReader).believedFor = 0;
    // Statistics are those that a test says.
    for (const table of TABLES) await database.query(`ALTER TABLE ${table} SET (autovacuum_enabled = false)`);
    await insertKeys(database, ACME.tenantId, FEW);
    await insertOthers(database, FEW);
    await database.query(`VACUUM ANALYZE ${TABLES.join(', ')}`);
  }
  await insertKeys(many.database, ACME.tenantId, MANY - FEW);
  await insertOthers(many.database, MANY / 10);
});
afterAll(async () => {
  await few.stop();
  await many.stop();
});

/** Events that are published, and payments that have succeeded: what a service has most of. */
async function insertOthers(database: TestApp['database'], count: number): Promise<void> {
  const insert = (text: string) => database.query(text, [ACME.tenantId, count]);
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

async function timeOf(service: TestApp): Promise<number> {
  const begun = performance.now();
  await scrape(service.as());
  return performance.now() - begun;
}

const median = (times: number[]): number => times.sort((one, other) => one - other)[(times.length - 1) / 2]!;
const keysShown = async (service: TestApp) =>
  (await scrape(service.as()))['orders_idempotency_keys{state="completed"}'];
const costIn = ({ database }: TestApp) => costOf(database, { text: STORED_FIGURES });

describe.each(['of a smaller table', 'that are up to date'])('a scrape, under statistics %s', (statistics) => {
  beforeAll(async () => {
    if (statistics === 'that are up to date') await many.database.query(`VACUUM ANALYZE ${TABLES.join(', ')}`);
  });

  it(`reads as much with ${MANY} stored keys as with ${FEW}`, async () => {
    const costs = { few: await costIn(few), many: await costIn(many) };
    const times: { few: number[]; many: number[] } = { few: [], many: [] };
    for (let n = 0; n < SCRAPES; n++) {
      times.few.push(await timeOf(few));
      times.many.push(await timeOf(many));
    }
    const medians = { few: median(times.few), many: median(times.many) };
    console.log(
      `Median of ${SCRAPES} scrapes, statistics ${statistics}: ${medians.few.toFixed(2)} ms with ${FEW} stored keys, ` +
        `${medians.many.toFixed(2)} ms with ${MANY}: ${(medians.many / medians.few).toFixed(2)} times as long ` +
        `(${costs.few.buffers} and ${costs.many.buffers} pages, ${costs.few.visited} and ${costs.many.visited} rows)`,
    );
    expect(await keysShown(many)).toBeGreaterThan(MANY / 2);
    if (costs.many.visited !== costs.few.visited) console.log(await planOf(many.database, { text: STORED_FIGURES }));
    // The first key to expire of each tenant, and the catalogue.
    expect(costs.few.visited).toBeLessThan(20);
    expect(costs.many.visited).toBe(costs.few.visited);
    expect(costs.many.buffers).toBeLessThanOrEqual(costs.few.buffers + DEEPER);
  });
});
