import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { TENANTS_WITH_EVENTS } from '../../../src/messaging/relay-store.js';
import { TENANTS_WITH_NOTIFICATIONS } from '../../../src/notifications/notification-table.js';
import { STORED_FIGURES, StoredFiguresReader } from '../../../src/operations/stored-figures.js';
import { newOrder } from '../../support/api-client.js';
import { PostgresProxy } from '../../support/postgres-proxy.js';
import { ACME, TestApp } from '../../support/test-app.js';
import { TestDatabase } from '../../support/test-database.js';
import { waitFor } from '../../support/wait-for.js';
import { insertKeys } from './insert-keys.js';
import { scrape } from './scrape.js';

const POOL = 2;

let database: TestDatabase;
let proxy: PostgresProxy;
let service: TestApp;
beforeAll(async () => {
  database = await TestDatabase.create();
  proxy = await PostgresProxy.start(database.url);
  service = await TestApp.start({ DATABASE_POOL_SIZE: String(POOL) }, { database, databaseUrl: proxy.url });
  service.app.get(StoredFiguresReader).believedFor = 0;
});
afterAll(async () => {
  await service.app.close();
  await proxy.stop();
  await database.drop();
});
beforeEach(() => database.clear());

const scraped = () => scrape(service.as());
const connections = async (state: string) => (await scraped())[`orders_database_connections{state="${state}"}`]!;
const STORED = [
  'orders_idempotency_keys{state="completed"}',
  'orders_idempotency_keys{state="in_progress"}',
  'orders_idempotency_oldest_unfinished_seconds',
  'orders_idempotency_expiry_lag_seconds',
  'orders_outbox_pending',
  'orders_outbox_oldest_seconds',
  'orders_outbox_dead',
  'orders_payments_unknown',
  'orders_refunds_unknown',
  'orders_payments_oldest_unknown_seconds',
  'orders_payment_reviews_open',
  'orders_surplus_charges_open',
];

describe('orders_database_connections', () => {
  it('shows who has a connection, and who waits for one', async () => {
    // Believed for a while, so that the scrapes themselves need no connection.
    const reader = service.app.get(StoredFiguresReader);
    reader.believedFor = 60_000;
    await scraped();
    expect(await connections('waiting')).toBe(0);

    const holder = await database.connect();
    await holder.query('BEGIN; LOCK TABLE orders');
    const creations = Promise.all([1, 2, 3, 4].map(() => service.as().post('/v1/orders', newOrder())));
    try {
      // Two are in their handlers, one wants to claim its key, and one waits for its turn to do so.
      await waitFor(async () => (await connections('waiting')) > 0, { description: 'a request to wait' });
      expect(await connections('busy')).toBe(POOL);
      expect(await connections('idle')).toBe(0);
    } finally {
      await holder.end();
      await creations;
      reader.believedFor = 0;
    }
    await waitFor(async () => (await connections('idle')) === POOL, { description: 'the connections to be free' });
    expect(await connections('waiting')).toBe(0);
  });
});

describe('orders_idempotency_keys', () => {
  const completed = async () => (await scraped())[STORED[0]!]!;
  /** What a session has written it tells some seconds later, and that is added to what ANALYZE has found. */
  const analysedUntil = (count: number) =>
    waitFor(
      async () => {
        await database.query('ANALYZE idempotency_keys');
        return (await completed()) === count;
      },
      { timeoutMs: 60_000, description: `${count} keys to be shown` },
    );

  it('follows the keys that are stored, as far as Postgres knows', async () => {
    await insertKeys(database, ACME.tenantId, 5_000);
    await analysedUntil(5_000);
    await database.query('DELETE FROM idempotency_keys');
    await analysedUntil(0);
  });

  it('does not fall to nothing when Postgres has lost its statistics, as it does when it crashes', async () => {
    await insertKeys(database, ACME.tenantId, 5_000);
    await analysedUntil(5_000);
    await database.query(`SELECT pg_stat_reset_single_table_counters('idempotency_keys'::regclass)`);
    expect(await completed()).toBeGreaterThanOrEqual(5_000);
  });
});

describe('while the database is away', () => {
  it('what only the database knows is left out, and not shown as nothing', async () => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    expect(Object.keys(await scraped())).toEqual(expect.arrayContaining(STORED));
    proxy.refuse();
    proxy.cutAll();
    try {
      const away = Object.keys(await scraped());
      expect(away.filter((name) => STORED.includes(name))).toEqual([]);
      expect(away).toEqual(expect.arrayContaining(['orders_events_dead_total', 'nodejs_eventloop_lag_p99_seconds']));
      expect(warn.mock.calls.filter(([line]) => String(line).startsWith('figures_not_read'))).toHaveLength(1);
    } finally {
      proxy.accept();
      warn.mockRestore();
    }
    expect(Object.keys(await scraped())).toEqual(expect.arrayContaining(STORED));
  });
});

describe('the figures of the tables', () => {
  it('are read by one statement for a scrape, and not again for scrapes close to it', async () => {
    const reader = service.app.get(StoredFiguresReader);
    // Beside what relay and sender ask for, and what a new connection begins with.
    const recorded = async (work: () => Promise<unknown>) => {
      const recording = proxy.record();
      await work();
      const statements = recording.stop().statements.map(({ sql }) => sql);
      return statements.filter(
        (sql) => ![TENANTS_WITH_EVENTS, TENANTS_WITH_NOTIFICATIONS].includes(sql) && !/^SET /.test(sql),
      );
    };
    expect(await recorded(scraped)).toEqual([STORED_FIGURES]);
    reader.believedFor = 60_000;
    expect(await recorded(() => Promise.all([scraped(), scraped()]))).toEqual([]);
    reader.believedFor = 0;
  });
});

describe('the event loop', () => {
  it('is seen to lag when something computes', async () => {
    const lag = async (milliseconds: number) => {
      const until = performance.now() + milliseconds;
      while (performance.now() < until); // somebody computes
      return (await scraped()).nodejs_eventloop_lag_max_seconds!;
    };
    // Each scrape begins anew; where it comes before the late timer, the next one shows it.
    await waitFor(async () => (await lag(300)) >= 0.25, { description: 'the lag to be shown' });
    await waitFor(async () => (await lag(0)) < 0.25, { description: 'the lag to be over' });
  });
});
