import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.js';
import { ClientRuns, type Work } from '../client/client-runs.js';
import { FaultyProxy } from '../client/faulty-proxy.js';
import { CARD, SandboxClient } from '../payments/paying.js';
import { ApiClient, newOrder } from '../support/api-client.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { Random } from './random.js';

const SEED = Number(process.env.CLIENT_SEED ?? Date.now() % 1_000_000);
const FULL = process.env.TEST_FULL === '1';
const ORDERS = FULL ? 2_000 : 200;
const PAYMENTS = FULL ? 200 : 20;
const KILLS = FULL ? 20 : 5;
/** Shorter than what is late, so that attempts overtake each other. */
const OPTIONS = { attemptTimeoutMs: 1_000, backoffBaseMs: 30, backoffCapMs: 1_000, maxAttempts: 30 };
const TIMEOUT_MS = 600_000;

describe(`the client, on a network that loses, delays, doubles and cuts, and killed meanwhile, seed ${SEED}`, () => {
  let database: TestDatabase;
  let providerDatabase: TestDatabase;
  let provider: Sandbox;
  let service: ServiceProcess;
  let api: ApiClient;

  beforeAll(async () => {
    [database, providerDatabase] = await Promise.all([TestDatabase.create(), TestDatabase.create()]);
    provider = await startSandbox({ databaseUrl: providerDatabase.url, port: 0 });
    service = await ServiceProcess.start({
      DATABASE_URL: database.url,
      STRIPE_API_BASE: provider.url,
      BANK_API_BASE: provider.url,
      SEED_DEMO_TENANTS: 'true',
      RATE_LIMIT: '0',
      LOG_LEVEL: 'error',
    });
    api = new ApiClient(service.baseUrl, ACME.key);
  }, 60_000);
  afterAll(async () => {
    await ServiceProcess.killAll();
    await provider?.stop();
    await database?.drop();
    await providerDatabase?.drop();
  });

  async function run(operation: 'create' | 'pay', work: Work[], stream: number) {
    const random = new Random(SEED, stream);
    const proxy = await FaultyProxy.start(service.baseUrl, random);
    const runs = await ClientRuns.of(operation, proxy.url, work, OPTIONS);
    try {
      proxy.onArrival = () => runs.arrived();
      await runs.toTheEnd(Array.from({ length: KILLS }, () => random.between(1, work.length / KILLS)));
      await proxy.settled();
      console.log(`seed ${SEED}, ${work.length} × ${operation}: ${runs.kills} kills,`, proxy.happened);
      return { noted: runs.noted, stored: await runs.stored(), kills: runs.kills, happened: proxy.happened };
    } finally {
      await proxy.stop();
      await runs.remove();
    }
  }

  it(
    `creates ${ORDERS} orders, none of them twice`,
    async () => {
      const work = Array.from({ length: ORDERS }, (_, n) => ({
        reference: `order-${n}`,
        body: newOrder({ metadata: { n: String(n) } }),
      }));

      const { noted, stored, kills, happened } = await run('create', work, 1);

      const rows = await database.query<{ id: string; n: string }>(`SELECT id, metadata->>'n' AS n FROM orders`);
      expect(new Set(rows.map(({ n }) => n)).size).toBe(ORDERS);
      expect(rows).toHaveLength(ORDERS);
      expect(await database.count('outbox', `type = 'order.created'`)).toBe(ORDERS);
      expect(await database.count('idempotency_keys')).toBe(ORDERS);
      // Every intent ended, in one success, with the order that is there.
      expect(noted.map(({ status }) => status)).toEqual(work.map(() => 'succeeded'));
      expect(new Set(noted.map(({ reference, id }) => `${reference} ${id}`))).toEqual(
        new Set(rows.map(({ id, n }) => `order-${n} ${id}`)),
      );
      expect(stored).toEqual([]);
      expect(kills).toBeGreaterThan(0);
      expect(happened['twice-at-once']).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );

  it(
    `pays ${PAYMENTS} orders, with as many effects at the provider`,
    async () => {
      const work: Work[] = [];
      for (let n = 0; n < PAYMENTS; n += 1) {
        const { body } = await api.post('/v1/orders', newOrder({ metadata: { paid: String(n) } }));
        work.push({ reference: `payment-${n}`, orderId: body.id as string, body: CARD });
      }

      const { noted, stored, kills } = await run('pay', work, 2);

      const effects = await new SandboxClient(provider.url).effects();
      expect(effects).toHaveLength(PAYMENTS);
      expect(new Set(effects.map(({ reference }) => reference)).size).toBe(PAYMENTS);
      expect(await database.count('payments', `status = 'succeeded'`)).toBe(PAYMENTS);
      expect(await database.count('payments')).toBe(PAYMENTS);
      expect(await database.count('outbox', `type = 'payment.succeeded'`)).toBe(PAYMENTS);
      expect(noted.map(({ status }) => status)).toEqual(work.map(() => 'succeeded'));
      expect(stored).toEqual([]);
      expect(kills).toBeGreaterThan(0);
    },
    TIMEOUT_MS,
  );
});
