import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { PostgresProxy, statement, type WireMessage } from '../support/postgres-proxy.js';
import { ACME, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { createOrder } from '../orders/order-effects.js';
import { consumerOf } from './consumer-of.js';
import { insertEvents } from './outbox-writer.js';
import { allPublished, createEffectTables, expectEffectsOnce } from './relay-processes.js';

/** Far longer than a test: whoever waits for it fails. */
const PAUSE = 600_000;

let database: TestDatabase;
let proxy: PostgresProxy;
/** When the relay looked for tenants with events, on the clock of this process. */
let looks: number[];
beforeAll(async () => {
  database = await TestDatabase.create();
  await createEffectTables(database);
  proxy = await PostgresProxy.start(database.url);
  proxy.onFrontend = ({ last, sql }: WireMessage) => {
    if (last && sql?.includes('RECURSIVE tenants')) looks.push(performance.now());
  };
});
afterAll(async () => {
  await proxy.stop();
  await database.drop();
});
beforeEach(() => {
  looks = [];
  return database.clear();
});

let relay: TestApp;
/** It ends with its test, however that ends: a long pause would keep the process. */
afterEach(() => relay.app.close());

async function start(longestPause: number, providers = [consumerOf()]): Promise<void> {
  relay = await TestApp.start({}, { database, databaseUrl: proxy.url, providers, messaging: { longestPause } });
}

describe('a relay with nothing to do', () => {
  it('looks less and less often, down to its longest pause, by one statement without a transaction', async () => {
    await start(640);
    await waitFor(() => looks.length >= 8, { description: 'eight looks' });
    const recording = proxy.record();
    await waitFor(() => looks.length >= 11, { description: 'three more looks' });
    const { statements } = recording.stop();
    await relay.app.close();

    // 20, 40, 80 ... 640: a timer may be late, but not early.
    const pauses = looks.slice(1).map((at, n) => at - looks[n]!);
    for (const [n, pause] of pauses.slice(0, 10).entries()) {
      expect(pause).toBeGreaterThanOrEqual(Math.min(640, 20 * 2 ** n) - 2);
    }
    expect(statements.every(({ sql }) => sql.includes('RECURSIVE tenants'))).toBe(true);
    expect(statements.length).toBeLessThanOrEqual(4);
  });

  it('is woken by a commit at once, also by one that comes while it delivers', async () => {
    await start(PAUSE);
    // A look that fails is followed by the longest pause.
    await proxy.once(statement.isSent(/RECURSIVE tenants/), 'cut');
    await createOrder(relay);
    await allPublished(database);
    for (let n = 0; n < 20; n++) await createOrder(relay);
    await allPublished(database);
    await expectEffectsOnce(database);
    expect(await database.count('effects')).toBe(21);
  });

  it('looks at no outbox at all where nobody receives', async () => {
    await start(20, []);
    await createOrder(relay);
    await insertEvents(database, ACME.tenantId, { aggregates: 3, versions: 1 });
    await relay.as().get('/v1/events');
    await relay.app.close();

    expect(looks).toEqual([]);
    expect(await database.count('outbox', 'published_at IS NULL')).toBe(4);
  });
});

describe('a relay with slow consumers', () => {
  it('leaves connections to requests, and takes no want of them for an outage', async () => {
    const slow = consumerOf(async (_, transaction) => {
      await transaction.query('SELECT pg_sleep(0.3)');
    });
    await start(50, [slow]);
    await insertEvents(database, ACME.tenantId, { aggregates: 50, versions: 1 });
    await waitFor(() => database.count('effects'), { description: 'the first to be done' });
    expect((await relay.as().get('/v1/orders')).status).toBe(200);
    let most = 0;
    while ((await database.count('effects')) < 50) {
      most = Math.max(
        most,
        await database.count('pg_stat_activity', `query LIKE '%pg_sleep(0.3)' AND state = 'active'`),
      );
    }
    expect(most).toBeLessThanOrEqual(4); // of the ten in the pool
    await allPublished(database);
    await relay.app.close();
    await expectEffectsOnce(database);
    expect(await database.count('outbox', 'attempts_started > 1')).toBe(0);
  });
});
