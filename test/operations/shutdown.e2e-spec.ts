import { Agent } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';

const IN_FLIGHT = 20;
const SESSIONS = `datname = current_database() AND application_name = 'orders-service'`;
const headers = (key: string) => ({ Authorization: `Bearer ${ACME.key}`, 'Idempotency-Key': key });

describe('K24: SIGTERM', () => {
  let database: TestDatabase;
  let proxy: PostgresProxy;
  let service: ServiceProcess;

  const start = (environment: Record<string, string> = {}) =>
    ServiceProcess.start({
      DATABASE_URL: proxy.url,
      SEED_DEMO_TENANTS: 'true',
      LOG_LEVEL: 'info',
      DATABASE_POOL_SIZE: String(IN_FLIGHT + 5),
      ...environment,
    });

  beforeAll(async () => {
    database = await TestDatabase.create();
    proxy = await PostgresProxy.start(database.url);
  });
  afterEach(async () => {
    await ServiceProcess.killAll();
    await database.clear();
  });
  afterAll(async () => {
    await proxy.stop();
    await database.drop();
  });

  it('answers what is in flight on keep-alive sockets, turns new requests away with 503, and ends', async () => {
    service = await start();
    const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT + 1 });
    const post = (key: string) =>
      service.request('POST', '/v1/orders', { agent, headers: headers(key), body: newOrder() });
    await post('warm-up');
    const idle = new Agent({ keepAlive: true });
    await service.request('GET', '/health/live', { agent: idle });
    const isIdle = () => Object.values(idle.freeSockets).flat().length > 0;
    expect(isIdle()).toBe(true);

    const holds = Array.from({ length: IN_FLIGHT }, () => proxy.hold(statement.starts('COMMIT')));
    const inFlight = Array.from({ length: IN_FLIGHT }, (_, n) => post(`k-${n}`));
    await Promise.all(holds.map(({ reached }) => reached));
    service.signal('SIGTERM');
    await waitFor(() => service.output.includes('SIGTERM received'), { description: 'the signal to arrive' });

    const late = await service.request('POST', '/v1/orders', { headers: headers('late'), body: newOrder() });
    expect(late.status).toBe(503);
    expect(late.json.code).toBe('service-unavailable');
    expect(late.headers['retry-after']).toBe('1');
    expect(late.headers.connection).toBe('close');
    await waitFor(() => !isIdle(), { timeoutMs: 2_000, description: 'the idle socket to be closed' });
    expect((await service.request('GET', '/health/ready')).status).toBe(503);
    expect((await service.request('GET', '/health/live')).status).toBe(200);

    holds.forEach((hold) => hold.release());
    const answers = await Promise.all(inFlight);
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: IN_FLIGHT }, () => 201));
    expect(answers.every((answer) => answer.headers.connection === 'close')).toBe(true);
    expect(await service.exited).toEqual({ code: 0, signal: null });
    expect(await database.counts()).toEqual({ orders: IN_FLIGHT + 1, events: IN_FLIGHT + 1, keys: IN_FLIGHT + 1 });
    agent.destroy();
  });

  it('cuts off what is not answered within the grace, and nothing of it is half done', async () => {
    service = await start({ SHUTDOWN_GRACE: '1s' });
    const hold = proxy.hold(statement.starts('COMMIT'));
    const stuck = service.request('POST', '/v1/orders', { headers: headers('stuck'), body: newOrder() });
    const outcome = stuck.then(
      ({ status }) => status,
      () => 'cut',
    );
    await hold.reached;
    service.signal('SIGTERM');
    expect(await outcome).toBe('cut');
    await service.exited;
    hold.release('cut');
    await waitFor(async () => (await database.count('pg_stat_activity', SESSIONS)) === 0, {
      description: 'its sessions to end',
    });
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('ends an idle service at once, though clients keep their sockets', async () => {
    service = await start();
    const agent = new Agent({ keepAlive: true });
    await service.request('GET', '/health/live', { agent });
    expect(await service.stop()).toBe(0);
    agent.destroy();
  });
});
