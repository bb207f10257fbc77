import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { UnprocessableEntityException } from '@nestjs/common';
import type { Client } from 'pg';
import type { ApiResponse } from '../support/api-client.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import { ACME, type TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { expectReplayOf } from './expect-replay-of.js';

const ONCE = { orders: 1, events: 1, keys: 1 };

let database: TestDatabase;
let service: TestApp;
let routes: TestRoutes;
let elsewhere: Client;

beforeAll(async () => (database = await TestDatabase.create()));
afterAll(() => database.drop());
beforeEach(async () => {
  await database.clear();
  elsewhere = await database.connect();
});
afterEach(async () => {
  await elsewhere.end();
  await service.app.close();
});

async function start(environment: Record<string, string>): Promise<void> {
  ({ service, routes } = await startWithTestRoutes(environment, { database }));
  routes.work = ({ tenantId }) => routes.createOrder(tenantId);
}

const send = (key = 'k-1', body: unknown = {}): Promise<ApiResponse> => service.as().post('/v1/test/work', body, key);

/** What another process does first: it claims keys in a transaction that goes on. */
async function claimElsewhere(...keys: string[]): Promise<void> {
  await elsewhere.query('BEGIN');
  // Version 0 of the fingerprint: the record counts as one of the same request.
  await elsewhere.query(
    `INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, created_at)
     SELECT $1, key, 'test.work', 'in_progress', '\\x00', 0, statement_timestamp() FROM unnest($2::text[]) AS key`,
    [ACME.tenantId, keys],
  );
}

/** And last: it records an answer. */
async function answerElsewhere(key: string): Promise<void> {
  await elsewhere.query(
    `UPDATE idempotency_keys SET status = 'completed', completed_at = statement_timestamp(),
       expires_at = statement_timestamp() + interval '1 hour', response_status = 202,
       response_headers = '{"Content-Type": "text/plain", "Location": "/elsewhere"}', response_body = 'done elsewhere'
     WHERE key = $1`,
    [key],
  );
  await elsewhere.query('COMMIT');
}

/** Sessions of the service that wait for a lock at this moment. */
async function blocked(): Promise<number> {
  return database.count(
    'pg_stat_activity',
    `datname = current_database() AND application_name = 'orders-service' AND wait_event_type = 'Lock'`,
  );
}

describe('M7, M9: a key that another process holds', () => {
  it('is waited for in the database, and its answer is replayed', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    await claimElsewhere('k-1');
    const duplicate = send();
    await waitFor(async () => (await blocked()) === 1, { description: 'the claim to block' });
    await answerElsewhere('k-1');

    const { status, text, headers } = await duplicate;
    expect([status, text, headers.location]).toEqual([202, 'done elsewhere', '/elsewhere']);
    expect(headers['idempotent-replayed']).toBe('true');
    expect(routes.calls).toBe(0);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });

  it('is free when that process rolls back: who waits executes', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    await claimElsewhere('k-1');
    const waiting = [send(), send(), send()];
    await waitFor(async () => routes.arrivals === 3 && (await blocked()) === 1, { description: 'the claim to block' });
    await elsewhere.query('ROLLBACK');

    const answers = await Promise.all(waiting);
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual(ONCE);
  });

  it('is 409 with Retry-After after IDEMPOTENCY_WAIT, for all who wait in this process', async () => {
    await start({ IDEMPOTENCY_WAIT: '100ms' });
    await claimElsewhere('k-1');
    const sent = performance.now();
    for (const { status, body, headers } of await Promise.all([send(), send(), send()])) {
      expect([status, body.code]).toEqual([409, 'idempotency-key-in-use']);
      expect(Number(headers['retry-after'])).toBeGreaterThan(0);
    }
    expect(performance.now() - sent).toBeLessThan(3_000);
    expect(await blocked()).toBe(0);

    await elsewhere.query('ROLLBACK');
    expect((await send()).status).toBe(201);
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual(ONCE);
  });

  it('is 409 at once where IDEMPOTENCY_WAIT is 0ms', async () => {
    await start({ IDEMPOTENCY_WAIT: '0ms' });
    await claimElsewhere('k-1');
    expect((await send()).body.code).toBe('idempotency-key-in-use');
    await elsewhere.query('ROLLBACK');
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('is waited for without a connection where its row is committed and unfinished', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    await claimElsewhere('k-1');
    await elsewhere.query('COMMIT');
    const duplicate = send();
    await waitFor(() => routes.arrivals === 1, { description: 'the request to arrive' });
    expect((await send('k-2')).status).toBe(201);
    expect(await blocked()).toBe(0);
    await elsewhere.query('BEGIN');
    await answerElsewhere('k-1');
    expect([(await duplicate).status, (await duplicate).text]).toEqual([202, 'done elsewhere']);
    expect(routes.calls).toBe(1);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 2 });
  });

  it('M6: is 422 for another request as soon as its record can be seen', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    await claimElsewhere('k-1');
    await elsewhere.query('UPDATE idempotency_keys SET fingerprint_version = 1');
    const other = send();
    await waitFor(async () => (await blocked()) === 1, { description: 'the claim to block' });
    await answerElsewhere('k-1');
    expect((await other).body.code).toBe('idempotency-key-reused');
    expect((await other).body.detail).toContain('202');
    expect(routes.calls).toBe(0);
  });

  it('M6: is 422 at once for another request where its row is committed, finished or not', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    await claimElsewhere('k-1');
    await elsewhere.query('UPDATE idempotency_keys SET fingerprint_version = 1');
    await elsewhere.query('COMMIT');
    const refused = await send(); // arrives long before the wait is over
    expect([refused.status, refused.body.code]).toEqual([422, 'idempotency-key-reused']);
    expect(refused.body.detail).toContain('still running');
    expect(routes.calls).toBe(0);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });

  it('does not leave its waiting time behind: the handler has the usual limits', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    routes.work = async () => {
      const [lock] = await routes.query('SHOW lock_timeout');
      const [statement] = await routes.query('SHOW statement_timeout');
      return { ...lock, ...statement };
    };
    const usual = { lock_timeout: '5s', statement_timeout: '10s' };
    expect((await send('k-0')).body).toEqual(usual);
    await claimElsewhere('k-1');
    const waiting = send();
    await waitFor(async () => (await blocked()) === 1, { description: 'the claim to block' });
    await elsewhere.query('ROLLBACK');
    expect((await waiting).body).toEqual(usual);
  });
});

describe('B5: 20 keys that other processes hold, on a pool of 5', () => {
  it('never occupy more than two connections, and an unrelated key executes at once', async () => {
    await start({ DATABASE_POOL_SIZE: '5', IDEMPOTENCY_WAIT: '20s' });
    const keys = Array.from({ length: 20 }, (_, n) => `k-${n}`);
    await claimElsewhere(...keys);
    let most = 0;
    const watch = async (): Promise<number> => (most = Math.max(most, await blocked()));
    const waiting = keys.map((key) => send(key));
    await waitFor(() => routes.arrivals === 20, { description: 'all to have arrived' });
    await waitFor(async () => (await watch()) > 0, { description: 'a claim to block' });

    for (let n = 0; n < 10; n++) {
      const sent = performance.now();
      expect((await send(`free-${n}`)).status).toBe(201);
      expect(performance.now() - sent).toBeLessThan(5_000); // they wait far longer
      for (let looks = 0; looks < 10; looks++) await watch();
    }
    expect(await service.as().get('/health/ready')).toMatchObject({ status: 200 });
    expect(most).toBeLessThanOrEqual(2);
    expect(await database.counts()).toEqual({ orders: 10, events: 10, keys: 10 });

    await elsewhere.query('ROLLBACK');
    const answers = await Promise.all(waiting);
    expect(answers.map(({ status }) => status)).toEqual(keys.map(() => 201));
    expect(routes.calls).toBe(30);
    expect(await database.counts()).toEqual({ orders: 30, events: 30, keys: 30 });
  });
});

describe('M38: two replicas of the service', () => {
  let second: Awaited<ReturnType<typeof startWithTestRoutes>>;
  afterEach(() => second.service.app.close());

  it('execute a key once, whichever of them is asked', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    second = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '20s' }, { database });
    second.routes.work = ({ tenantId }) => second.routes.createOrder(tenantId);
    for (let n = 0; n < 10; n++) {
      const answers = await Promise.all(
        [service, second.service, service, second.service].map((app) => app.as().post('/v1/test/work', {}, `k-${n}`)),
      );
      expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
      expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    }
    expect(routes.calls + second.routes.calls).toBe(10);
    expect(await database.counts()).toEqual({ orders: 10, events: 10, keys: 10 });
  });

  it('replay what the other has done, even while a first of their own hangs that has lost its connection', async () => {
    await start({ IDEMPOTENCY_WAIT: '300ms' });
    second = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '20s' }, { database });
    second.routes.work = ({ tenantId }) => second.routes.createOrder(tenantId);
    const gate = new Gate();
    routes.work = async ({ tenantId }) => {
      await routes.createOrder(tenantId);
      return gate.pass();
    };
    const hanging = send();
    try {
      await gate.reached;
      // As the server does by itself with a session that is idle inside a transaction for too long.
      await elsewhere.query(`
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'orders-service' AND state = 'idle in transaction'`);
      const executed = await second.service.as().post('/v1/test/work', {}, 'k-1');
      expect([executed.status, executed.headers['idempotent-replayed']]).toEqual([201, undefined]);
      expectReplayOf(executed, await send());
    } finally {
      gate.open();
      expect((await hanging).status).toBe(503);
    }
    expect(await database.counts()).toEqual(ONCE);
  });

  it('K27: give one answer when one is refused and the reason disappears while the other waits', async () => {
    await start({ IDEMPOTENCY_WAIT: '20s' });
    second = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '20s' }, { database });
    second.routes.work = () => ({ succeeded: true });
    const gate = new Gate();
    routes.work = async ({ tenantId }) => {
      await routes.createOrder(tenantId);
      await gate.pass();
      throw new UnprocessableEntityException('taken');
    };
    const first = send();
    await gate.reached;
    const duplicate = second.service.as().post('/v1/test/work', {}, 'k-1');
    await waitFor(async () => (await blocked()) === 1, { description: 'the duplicate to wait on the row' });
    gate.open();

    expect((await first).status).toBe(422);
    expectReplayOf(await first, await duplicate);
    expect(second.routes.calls).toBe(0);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });
});
