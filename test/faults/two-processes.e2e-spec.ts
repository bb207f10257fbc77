import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { ServiceProcess, type ServiceResponse } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';

const POOL_SIZE = 5;

const post = (service: ServiceProcess, key: string, body: unknown = newOrder()): Promise<ServiceResponse> =>
  service.request('POST', '/v1/orders', {
    headers: { Authorization: `Bearer ${ACME.key}`, 'Idempotency-Key': key },
    body,
  });

const times = <T>(count: number, make: (n: number) => T): T[] => Array.from({ length: count }, (_, n) => make(n));

/** Each answer is a replay of `first`, or says when to come again. */
const expectReplaysOrConflicts = (answers: readonly ServiceResponse[], first: ServiceResponse): void => {
  for (const { status, headers, body, json } of answers) {
    if (status === 409) {
      expect(json.code).toBe('idempotency-key-in-use');
      expect(headers['retry-after']).toBe('1');
    } else {
      expect(status).toBe(first.status);
      expect(headers['idempotent-replayed']).toBe('true');
      expect(body).toEqual(first.body);
    }
  }
};

describe('two processes of the service on one database', () => {
  let database: TestDatabase;
  let proxy: PostgresProxy;
  let one: ServiceProcess;
  let other: ServiceProcess;

  beforeAll(async () => {
    database = await TestDatabase.create();
    proxy = await PostgresProxy.start(database.url);
    const environment = {
      SEED_DEMO_TENANTS: 'true',
      LOG_LEVEL: 'error',
      DATABASE_POOL_SIZE: String(POOL_SIZE),
      IDEMPOTENCY_WAIT: '15s',
    };
    one = await ServiceProcess.start({ ...environment, DATABASE_URL: proxy.url });
    other = await ServiceProcess.start({ ...environment, DATABASE_URL: database.url });
  });
  beforeEach(() => database.clear());
  afterAll(async () => {
    await ServiceProcess.killAll();
    await proxy.stop();
    await database.drop();
  });

  /** Sessions of both processes that wait for a lock at this moment. */
  const lockWaits = async (): Promise<number> => {
    const [row] = await database.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'orders-service' AND wait_event_type = 'Lock'`,
    );
    return row!.n;
  };

  it('K27: a refused leader and its ten duplicates give one answer, though the reason goes away meanwhile', async () => {
    const order = newOrder({ externalRef: 'ref' });
    const { json: taken } = await post(one, 'holder', order);

    const refusal = proxy.hold(statement.starts(/^ROLLBACK TO SAVEPOINT/));
    const leader = post(one, 'k', order);
    await refusal.reached; // refused, and not yet recorded
    const duplicates = [...times(5, () => post(one, 'k', order)), ...times(5, () => post(other, 'k', order))];
    await waitFor(async () => (await lockWaits()) === 1, { description: 'the other process to wait for the key' });
    const freed = await other.request('DELETE', `/v1/orders/${taken.id}`, {
      headers: { Authorization: `Bearer ${ACME.key}` },
    });
    expect(freed.status).toBe(204);
    refusal.release();

    const answers = await Promise.all([leader, ...duplicates]);
    for (const { status, json, body } of answers) {
      expect(status).toBe(409);
      expect(json.code).toBe('duplicate-external-ref');
      expect(json.orderId).toBe(taken.id);
      expect(body).toEqual(answers[0].body);
    }
    // The deleted order, its two events, the key of its creation and the key of the refusal.
    expect(await database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it('K4, M38: 200 duplicates of one key execute once, and other keys are not hindered', async () => {
    const commit = proxy.hold(statement.starts('COMMIT'));
    const leader = post(one, 'storm');
    await commit.reached;
    const duplicates = times(200, (n) => post(n % 2 === 0 ? one : other, 'storm'));
    await waitFor(async () => (await lockWaits()) === 1, { description: 'the other process to wait for the key' });

    // While all of them wait, everybody else is served, by either process.
    const others = await Promise.all(times(40, (n) => post(n % 2 === 0 ? one : other, `other-${n}`)));
    expect(others.map(({ status }) => status)).toEqual(times(40, () => 201));

    commit.release();
    const first = await leader;
    expect(first.status).toBe(201);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expectReplaysOrConflicts(await Promise.all(duplicates), first);
    expect(await database.counts()).toEqual({ orders: 41, events: 41, keys: 41 });
  });

  it('B5: 20 keys of 10 duplicates each never let more than half of a pool wait for claims', async () => {
    // A third process, played by the test, holds all 20 keys in a transaction that has not ended.
    const holder = await database.connect();
    await holder.query('BEGIN');
    await holder.query(
      `INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, created_at)
       SELECT $1, 'held-' || n, 'orders.create', 'in_progress', '\\x00', 1, statement_timestamp()
       FROM generate_series(0, 19) AS n`,
      [ACME.tenantId],
    );
    const duplicates = times(200, (n) => ({
      key: `held-${n % 20}`,
      answer: post(n < 100 ? one : other, `held-${n % 20}`),
    }));

    let most = 0;
    let sampling = true;
    const sampler = (async () => {
      while (sampling) most = Math.max(most, await lockWaits());
    })();
    await waitFor(() => most > 0, { description: 'claims to wait' });
    const others = await Promise.all(times(40, (n) => post(n % 2 === 0 ? one : other, randomUUID())));
    expect(others.map(({ status }) => status)).toEqual(times(40, () => 201));
    await waitFor(async () => (await lockWaits()) > 0, { description: 'claims to wait still' });
    sampling = false;
    await sampler;
    expect(most).toBeLessThanOrEqual(2 * Math.floor(POOL_SIZE / 2));

    await holder.query('ROLLBACK');
    await holder.end();
    for (const key of new Set(duplicates.map((duplicate) => duplicate.key))) {
      const answers = await Promise.all(duplicates.filter((d) => d.key === key).map(({ answer }) => answer));
      const executed = answers.filter(({ status, headers }) => status === 201 && !headers['idempotent-replayed']);
      expect(executed).toHaveLength(1);
      expectReplaysOrConflicts(
        answers.filter((answer) => answer !== executed[0]),
        executed[0]!,
      );
    }
    expect(await database.counts()).toEqual({ orders: 60, events: 60, keys: 60 });
  });
});
