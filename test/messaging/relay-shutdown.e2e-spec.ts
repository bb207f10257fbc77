import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { allPublished, createEffectTables, expectEffectsOnce, startRelay } from './relay-processes.js';

const AGGREGATES = 10;
const VERSIONS = 20;
const SESSIONS = `datname = current_database() AND application_name = 'orders-service'`;

let database: TestDatabase;
let proxy: PostgresProxy;
beforeAll(async () => {
  database = await TestDatabase.create();
  await createEffectTables(database);
  proxy = await PostgresProxy.start(database.url);
});
afterAll(async () => {
  await proxy.stop();
  await database.drop();
});
beforeEach(() => database.clear());
afterEach(() => ServiceProcess.killAll());

/** Events whose consumer lingers: all of a batch take several times the grace. */
async function insertLingering(): Promise<void> {
  const subjects = Array.from({ length: AGGREGATES }, () => randomUUID());
  await database.query(`INSERT INTO behaviours SELECT unnest($1::uuid[]), 'linger'`, [subjects]);
  await database.query(
    `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
     SELECT $1, gen_random_uuid(), 'order', subject, version, 'order.updated', '{}'
     FROM unnest($2::uuid[]) subject, generate_series(1, $3::int) version`,
    [ACME.tenantId, subjects, VERSIONS],
  );
}

describe('K24: SIGTERM while the relay is in the middle of a batch', () => {
  it('ends within the grace: what was handed over is finished and marked, the rest is given back', async () => {
    const relay = await startRelay(proxy.url, { longestPause: 50 }, { SHUTDOWN_GRACE: '4s', LOG_LEVEL: 'info' });
    await insertLingering();
    await waitFor(() => database.count('effects', 'version >= 2'), { description: 'the batch to be under way' });
    const begun = performance.now();
    expect(await relay.stop()).toBe(0);
    expect(performance.now() - begun).toBeLessThan(4_000);

    const effects = await database.count('effects');
    expect(effects).toBeLessThan(AGGREGATES * VERSIONS);
    expect(await database.count('outbox', 'published_at IS NOT NULL')).toBe(effects);
    expect(await database.count('processed_messages')).toBe(effects);
    expect(await database.count('outbox', 'lease_token IS NOT NULL OR attempts_started <> attempts_finished')).toBe(0);

    // Another goes on at once, not only after a lease.
    await database.query('DELETE FROM behaviours');
    await startRelay(database.url, { longestPause: 50 });
    await allPublished(database);
    await expectEffectsOnce(database);
    expect(await database.count('outbox', 'attempts_started <> 1')).toBe(0);
  });

  it('ends at the end of the grace though a delivery hangs, and nothing of it is half done', async () => {
    const relay = await startRelay(proxy.url, { longestPause: 50, relayLease: 2_000 }, { SHUTDOWN_GRACE: '1s' });
    const hanging = proxy.hold(statement.starts(/INTO effects/));
    await insertLingering();
    await hanging.reached;
    const begun = performance.now();
    relay.signal('SIGTERM');
    await relay.exited;
    expect(performance.now() - begun).toBeLessThan(3_000);
    hanging.release('cut');
    await waitFor(async () => (await database.count('pg_stat_activity', SESSIONS)) === 0, {
      description: 'its sessions to end',
    });
    expect(await database.count('processed_messages')).toBe(await database.count('effects'));

    await database.query('DELETE FROM behaviours');
    await startRelay(database.url, { longestPause: 50 });
    await allPublished(database);
    await expectEffectsOnce(database);
  });
});
