import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { PostgresProxy, statement, type WireMessage } from '../support/postgres-proxy.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';

const headers = { Authorization: `Bearer ${ACME.key}`, 'Idempotency-Key': 'k' };

describe('M37: the process is killed in the middle of a request', () => {
  let database: TestDatabase;
  let proxy: PostgresProxy;
  let service: ServiceProcess;

  const start = () => ServiceProcess.start({ DATABASE_URL: proxy.url, SEED_DEMO_TENANTS: 'true', LOG_LEVEL: 'error' });
  const send = () => service.request('POST', '/v1/orders', { headers, body: newOrder() });

  beforeAll(async () => {
    database = await TestDatabase.create();
    proxy = await PostgresProxy.start(database.url);
  });
  beforeEach(() => database.clear());
  afterEach(() => ServiceProcess.killAll());
  afterAll(async () => {
    await proxy.stop();
    await database.drop();
  });

  /** Kills the service while it has sent, or not yet been told, just what the predicate says. */
  const crashAt = async (predicate: (message: WireMessage) => boolean): Promise<void> => {
    service = await start();
    const crashed = proxy.once(predicate, async () => {
      await service.kill();
      return 'cut' as const;
    });
    await expect(send()).rejects.toThrow();
    await crashed;
    // Postgres notices that its client is gone, and ends what it had begun.
    await waitFor(async () => (await sessions()) === 0, { description: 'the sessions of the killed process to end' });
    service = await start();
  };

  const sessions = async (): Promise<number> => {
    const [row] = await database.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'orders-service'`,
    );
    return row!.n;
  };

  it.each([
    ['when the claim is done', statement.isAnswered(/INSERT INTO idempotency_keys/)],
    ['when the effect is done', statement.isAnswered(/INSERT INTO orders/)],
    ['before COMMIT', statement.starts('COMMIT')],
  ])('%s: nothing is left of it, and the retry executes at once', async (_, predicate) => {
    await crashAt(predicate);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });

    const retry = await send();
    expect(retry.status).toBe(201);
    expect(retry.headers['idempotent-replayed']).toBeUndefined();
    const again = await send();
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect(again.body).toEqual(retry.body);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('after COMMIT and before the answer: one order, and the retry gets the stored answer', async () => {
    await crashAt(statement.isAnswered('COMMIT'));
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });

    const retry = await send();
    expect(retry.status).toBe(201);
    expect(retry.headers['idempotent-replayed']).toBe('true');
    const order = await service.request('GET', retry.headers.location!, { headers });
    expect(order.json).toEqual(retry.json);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});
