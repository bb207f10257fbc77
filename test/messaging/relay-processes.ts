import { expect } from '@jest/globals';
import type { MessagingOptions } from '../../src/messaging/messaging.options.js';
import { ServiceProcess } from '../support/service-process.js';
import type { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';

/** The tables of `relay-process.js`: what was handed over, what came of it, and what the consumer is to do. */
export async function createEffectTables(database: TestDatabase): Promise<void> {
  await database.query(`
    CREATE TABLE deliveries (
      seq bigserial PRIMARY KEY, message_id uuid NOT NULL, subject uuid NOT NULL, version integer NOT NULL,
      process integer NOT NULL);
    CREATE TABLE effects (
      seq bigserial PRIMARY KEY, tenant_id uuid NOT NULL, event_id uuid NOT NULL, subject uuid NOT NULL,
      version integer NOT NULL);
    CREATE TABLE behaviours (subject uuid PRIMARY KEY, does text NOT NULL)`);
}

/** The built service with a consumer of the test's own, in a process of its own. */
export function startRelay(
  databaseUrl: string,
  messaging: Partial<MessagingOptions> = {},
  environment: Record<string, string> = {},
): Promise<ServiceProcess> {
  return ServiceProcess.start(
    {
      DATABASE_URL: databaseUrl,
      SEED_DEMO_TENANTS: 'true',
      LOG_LEVEL: 'error',
      DATABASE_POOL_SIZE: '6',
      MESSAGING: JSON.stringify(messaging),
      ...environment,
    },
    { entry: 'test/support/relay-process.js', timeoutMs: 60_000 }, // several start at once
  );
}

/** Waits until nothing is left to publish; says what is there otherwise. */
export async function allPublished(database: TestDatabase, timeoutMs = 20_000): Promise<void> {
  await waitFor(async () => (await database.count('outbox', 'published_at IS NULL')) === 0, {
    timeoutMs,
    description: 'all events to be published',
  });
}

/** Each event of the outbox has had its effect once, and of each aggregate in the order of versions. */
export async function expectEffectsOnce(database: TestDatabase): Promise<void> {
  const wrong = await database.query(`
    SELECT o.id, count(e.event_id)::int AS effects
    FROM outbox o LEFT JOIN effects e ON e.event_id = o.id GROUP BY o.id HAVING count(e.event_id) <> 1`);
  expect(wrong).toEqual([]);
  expect(await database.count('effects')).toBe(await database.count('outbox'));
  expect(await outOfOrder(database, 'SELECT subject, version, seq FROM effects')).toEqual([]);
}

/** Each delivery carries its event's id, and the first ones of each aggregate are in the order of versions. */
export async function expectDeliveriesInOrder(database: TestDatabase): Promise<void> {
  const strangers = await database.query(`
    SELECT d.* FROM deliveries d JOIN outbox o ON o.aggregateid = d.subject AND o.aggregateversion = d.version
    WHERE o.id <> d.message_id`);
  expect(strangers).toEqual([]);
  const missing = await database.query(
    'SELECT id FROM outbox WHERE NOT EXISTS (SELECT 1 FROM deliveries WHERE message_id = id)',
  );
  expect(missing).toEqual([]);
  const firsts = 'SELECT subject, version, min(seq) AS seq FROM deliveries GROUP BY subject, version';
  expect(await outOfOrder(database, firsts)).toEqual([]);
}

/** What comes behind a higher version of its aggregate. */
function outOfOrder(database: TestDatabase, rows: string): Promise<unknown[]> {
  return database.query(`
    SELECT * FROM (
      SELECT *, lag(seq) OVER (PARTITION BY subject ORDER BY version) AS before FROM (${rows}) AS rows) AS ordered
    WHERE before > seq`);
}
