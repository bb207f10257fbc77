import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { UnitOfWork } from '../../src/database/unit-of-work.js';
import { KeyCleanup } from '../../src/idempotency/key-cleanup.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { expectReplayOf } from './expect-replay-of.js';

const THIRD = { tenantId: randomUUID() };

let database: TestDatabase;
let service: TestApp;
let routes: TestRoutes;
let others: TestApp[];

beforeAll(async () => {
  database = await TestDatabase.create();
  ({ service, routes } = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '20s' }, { database }));
});
afterAll(() => service.stop());
beforeEach(async () => {
  await database.clear();
  routes.reset();
  routes.work = ({ tenantId }) => routes.createOrder(tenantId);
  others = [];
});
afterEach(async () => {
  jest.restoreAllMocks();
  await Promise.all(others.map(({ app }) => app.close()));
});

const cleanup = (of = service): KeyCleanup => of.app.get(KeyCleanup);
const send = (key = 'k-1') => service.as().post('/v1/test/work', {}, key);

/** Completed keys of a tenant; `age` says how long ago they expired. */
async function insertCompleted({ tenantId }: { tenantId: string }, count: number, age = '1 second'): Promise<void> {
  await database.query(
    `INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, response_status,
                                   response_headers, response_body, created_at, completed_at, expires_at)
     SELECT $1, 'old-' || n || '-' || $3, 'test.work', 'completed', '\\x00', 0, 200, '{}', 'x', t - interval '1 day', t - interval '1 day', t
     FROM generate_series(1, $2::int) AS n, (SELECT statement_timestamp() - $3::interval) AS clock (t)`,
    [tenantId, count, age],
  );
}

const expire = (key: string) =>
  database.query(`UPDATE idempotency_keys SET expires_at = statement_timestamp() - interval '1 ms' WHERE key = $1`, [
    key,
  ]);

describe('K11, M12: the cleanup', () => {
  it('removes what has expired and nothing else, for every tenant', async () => {
    for (const tenant of [ACME, GLOBEX, THIRD]) {
      await insertCompleted(tenant, 5);
      await insertCompleted(tenant, 3, '-1 hour');
    }
    expect(await cleanup().run()).toBe(15);
    expect(await database.count('idempotency_keys')).toBe(9);
    expect(await database.count('idempotency_keys', 'expires_at > statement_timestamp()')).toBe(9);
    expect(await cleanup().run()).toBe(0);
  });

  it('never removes what is unfinished, with or without a lease, however old', async () => {
    await insertCompleted(ACME, 1);
    await database.query(
      `INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, created_at,
                                     lease_until, recovery_point, expires_at)
       VALUES ($1, 'no-lease', 'a', 'in_progress', '\\x00', 1, '2020-01-01', NULL, NULL, NULL),
              ($1, 'lapsed', 'a', 'in_progress', '\\x00', 1, '2020-01-01', '2020-01-01', 'charge_sent', NULL),
              ($1, 'held', 'a', 'in_progress', '\\x00', 1, '2020-01-01', statement_timestamp() + interval '1 hour', 'created', NULL),
              ($1, 'dated', 'a', 'in_progress', '\\x00', 1, '2020-01-01', '2020-01-01', 'charge_sent', '2020-01-02')`,
      [ACME.tenantId],
    );
    expect(await cleanup().run()).toBe(1);
    expect(await database.count('idempotency_keys', `status = 'in_progress'`)).toBe(4);
  });

  it('goes in small batches: no statement locks more than 500 rows', async () => {
    for (const tenant of [ACME, GLOBEX, THIRD]) await insertCompleted(tenant, 1_300);
    const run = jest.spyOn(service.app.get(UnitOfWork), 'run');
    expect(await cleanup().run()).toBe(3_900);
    const batches = await Promise.all(run.mock.results.map(({ value }) => value as Promise<number>));
    expect(Math.max(...batches)).toBe(500);
    expect(batches.length).toBeGreaterThanOrEqual(9);
    expect(await database.count('idempotency_keys')).toBe(0);
  });

  it('copes with 100,000 expired keys', async () => {
    await insertCompleted(ACME, 100_000);
    expect(await cleanup().run()).toBe(100_000);
    expect(await database.count('idempotency_keys')).toBe(0);
  });

  it('by three replicas at once: each row is removed once, and none is left', async () => {
    const tenants = [ACME, GLOBEX, THIRD];
    for (const tenant of tenants) await insertCompleted(tenant, 4_000);
    for (let n = 0; n < 2; n++) others.push(await TestApp.start({}, { database }));
    const removed = await Promise.all([service, ...others].map((replica) => cleanup(replica).run()));
    expect(removed.reduce((sum, one) => sum + one, 0)).toBe(12_000);
    expect(await database.count('idempotency_keys')).toBe(0);
  });

  it('is joined by a second call while it runs, and can run again afterwards', async () => {
    await insertCompleted(ACME, 1_300);
    const run = jest.spyOn(service.app.get(UnitOfWork), 'run');
    expect(await Promise.all([cleanup().run(), cleanup().run(), cleanup().run()])).toEqual([1_300, 1_300, 1_300]);
    expect(run.mock.calls).toHaveLength(3);
    await insertCompleted(ACME, 2);
    expect(await cleanup().run()).toBe(2);
  });
});

describe('K11: the cleanup beside requests', () => {
  it('passes by an expired key that is being claimed, and does not wait for it', async () => {
    await send();
    await expire('k-1');
    await insertCompleted(ACME, 3);
    const gate = new Gate();
    routes.work = async ({ tenantId }) => {
      const order = await routes.createOrder(tenantId);
      await gate.pass();
      return order;
    };
    const claiming = send();
    await gate.reached;
    expect(await cleanup().run()).toBe(3); // arrives, or this test hangs
    gate.open();
    const executed = await claiming;
    expect(executed.status).toBe(201);
    expectReplayOf(executed, await send());
    expect(routes.calls).toBe(2);
    expect(await database.counts()).toEqual({ orders: 2, events: 2, keys: 1 });
  });

  it.each(['COMMIT', 'ROLLBACK'])(
    'a key whose removal is under way executes once when that ends by %s',
    async (end) => {
      await send();
      await expire('k-1');
      const remover = await database.connect();
      try {
        await remover.query('BEGIN');
        await remover.query('DELETE FROM idempotency_keys');
        const waiting = [send(), send()];
        const blocked = `datname = current_database() AND application_name = 'orders-service' AND wait_event_type = 'Lock'`;
        await waitFor(async () => (await database.count('pg_stat_activity', blocked)) === 1, {
          description: 'the claim to wait for the removal',
        });
        await remover.query(end);
        const answers = await Promise.all(waiting);
        expect(answers.map(({ status }) => status)).toEqual([201, 201]);
        expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
        expect(routes.calls).toBe(2);
        expect(await database.counts()).toEqual({ orders: 2, events: 2, keys: 1 });
      } finally {
        await remover.end();
      }
    },
  );

  it('disturbs no replay and no new execution, whatever it removes meanwhile', async () => {
    const first = await send('kept');
    await insertCompleted(ACME, 5_000);
    const running = cleanup().run();
    const answers = Promise.all(Array.from({ length: 20 }, (_, n) => send(n % 2 ? 'kept' : `new-${n}`)));
    for (const [n, answer] of (await answers).entries()) {
      if (n % 2) expectReplayOf(first, answer);
      else expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([201, undefined]);
    }
    expect(await running).toBe(5_000);
    expect(await database.counts()).toEqual({ orders: 11, events: 11, keys: 11 });
  });

  it('of keys that expire and are claimed again all the time loses none and doubles none', async () => {
    let stop = false;
    const sweeping = (async () => {
      while (!stop) await cleanup().run();
    })();
    for (let round = 0; round < 10; round++) {
      const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => send(`k-${n % 5}`)));
      expect(answers.every(({ status }) => status === 201)).toBe(true);
      await database.query(`UPDATE idempotency_keys SET expires_at = statement_timestamp() - interval '1 ms'`);
    }
    stop = true;
    await sweeping;
    expect(routes.calls).toBe(50);
    expect((await database.counts()).orders).toBe(50);
    expect((await database.counts()).events).toBe(50);
  });
});

describe('M12: the schedule', () => {
  it('runs the cleanup every IDEMPOTENCY_CLEANUP_INTERVAL, and goes on after a failure', async () => {
    const warned = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const swept = async (): Promise<boolean> => (await database.count('idempotency_keys')) === 0;
    others.push(await TestApp.start({ IDEMPOTENCY_CLEANUP_INTERVAL: '50ms' }, { database }));
    await insertCompleted(ACME, 3);
    await waitFor(swept, { description: 'the schedule to clean up' });

    await database.query('ALTER TABLE idempotency_keys RENAME TO away');
    await waitFor(() => warned.mock.calls.length > 0, { description: 'the failure to be logged' });
    await database.query('ALTER TABLE away RENAME TO idempotency_keys');
    await insertCompleted(GLOBEX, 3);
    await waitFor(swept, { description: 'the schedule to clean up again' });
  });

  it('ends with the service: a run under way stops after its batch, and none comes after', async () => {
    const closing = await TestApp.start({ IDEMPOTENCY_CLEANUP_INTERVAL: '50ms' }, { database });
    await insertCompleted(ACME, 20_000);
    try {
      await waitFor(async () => (await database.count('idempotency_keys')) < 20_000, { description: 'a run to begin' });
    } finally {
      await closing.app.close();
    }
    const left = await database.count('idempotency_keys');
    expect(left % 500).toBe(0);
    await waitFor(async () => (await sessions()) === 0, { description: 'its connections to be closed' });
    expect(await database.count('idempotency_keys')).toBe(left);
  });

  /** Busy sessions of the service. */
  function sessions(): Promise<number> {
    return database.count(
      'pg_stat_activity',
      `datname = current_database() AND application_name = 'orders-service' AND state <> 'idle'`,
    );
  }
});

// Last, because what Postgres has come to believe of the table outlives a test.
describe('K11: the cleanup of a tenant that Postgres knows nothing of yet', () => {
  it('goes in small and quick batches all the same', async () => {
    await database.query('ALTER TABLE idempotency_keys SET (autovacuum_enabled = off)');
    try {
      // Statistics that were made before this tenant had any keys: the planner thinks that it has one.
      await database.query(`
        INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, response_status,
                                      response_headers, response_body, created_at, completed_at, expires_at)
        SELECT gen_random_uuid(), 'k', 'a', 'completed', '\\x00', 0, 200, '{}', 'x', t, t, t + interval '1 day'
        FROM generate_series(1, 20000), statement_timestamp() AS t`);
      await database.query('ANALYZE idempotency_keys');
      await insertCompleted(ACME, 20_000);
      const run = jest.spyOn(service.app.get(UnitOfWork), 'run');
      const began = performance.now();
      expect(await cleanup().run()).toBe(20_000);
      const batches = await Promise.all(run.mock.results.map(({ value }) => value as Promise<number>));
      expect(Math.max(...batches)).toBe(500);
      expect(performance.now() - began).toBeLessThan(15_000); // about 1 s where a batch looks at its own rows only
      expect(await database.count('idempotency_keys')).toBe(20_000);
    } finally {
      await database.query('ALTER TABLE idempotency_keys RESET (autovacuum_enabled)');
    }
  });
});
