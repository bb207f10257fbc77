import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';

const send = (service: TestApp, key: string) => service.as().post('/v1/orders', newOrder(), key);

describe('K2: the connection to the database is lost', () => {
  let database: TestDatabase;
  let proxy: PostgresProxy;
  let service: TestApp;

  beforeAll(async () => {
    database = await TestDatabase.create();
    proxy = await PostgresProxy.start(database.url);
    service = await TestApp.start({ DATABASE_POOL_SIZE: '3' }, { database, databaseUrl: proxy.url });
  });
  afterAll(async () => {
    await service.stop();
    await proxy.stop();
  });
  beforeEach(async () => {
    await database.clear();
    await service.as().get('/v1/orders'); // logs in, so that the claim is the next statement
  });

  it('after COMMIT was carried out: 503 outcome-unknown, and the retry replays the one result', async () => {
    const lost = proxy.once(statement.isSent('COMMIT'), 'pass-then-cut');
    const first = await send(service, 'k');
    await lost;
    expect(first.status).toBe(503);
    expect(first.body.code).toBe('outcome-unknown');
    expect(first.headers['retry-after']).toBe('1');
    await waitFor(() => database.count('idempotency_keys', `status = 'completed'`), { description: 'the commit' });

    const retry = await send(service, 'k');
    expect(retry.status).toBe(201);
    expect(retry.headers['idempotent-replayed']).toBe('true');
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('before COMMIT arrived: 503 as well, for it cannot be told apart, and the retry executes', async () => {
    const lost = proxy.once(statement.starts('COMMIT'), 'cut');
    const first = await send(service, 'k');
    await lost;
    expect(first.status).toBe(503);
    expect(first.body.code).toBe('outcome-unknown');
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });

    const retry = await send(service, 'k');
    expect(retry.status).toBe(201);
    expect(retry.headers['idempotent-replayed']).toBeUndefined();
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each([
    ['at BEGIN', /^BEGIN/],
    ['at the claim', /INSERT INTO idempotency_keys/],
    ["at the handler's statement", /INSERT INTO orders/],
  ])('%s: 503 service-unavailable, nothing has happened, the retry executes', async (_, sql) => {
    const lost = proxy.once(statement.starts(sql), 'cut');
    const first = await send(service, 'k');
    await lost;
    expect(first.status).toBe(503);
    expect(first.body.code).toBe('service-unavailable');
    expect(first.headers['retry-after']).toBe('1');
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });

    expect((await send(service, 'k')).status).toBe(201);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('never hands the broken connection to the next request, and its duplicates get their turn', async () => {
    const lost = proxy.once(statement.isSent('COMMIT'), 'pass-then-cut');
    const answers = await Promise.all(Array.from({ length: 10 }, () => send(service, 'k')));
    await lost;
    const statuses = answers.map(({ status }) => status).sort();
    expect(statuses).toEqual([...Array.from({ length: 9 }, () => 201), 503]);
    const bodies = new Set(answers.filter(({ status }) => status === 201).map(({ text }) => text));
    expect(bodies.size).toBe(1);
    expect(await database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
    const others = await Promise.all(Array.from({ length: 9 }, (_, n) => send(service, `other-${n}`)));
    expect(others.map(({ status }) => status)).toEqual(Array.from({ length: 9 }, () => 201));
  });

  it('and stays away: every request gets 503, and it recovers by itself', async () => {
    proxy.refuse();
    proxy.cutAll();
    const away = await Promise.all(Array.from({ length: 6 }, (_, n) => send(service, `away-${n}`)));
    for (const { status, body } of away) {
      expect(status).toBe(503);
      expect(body.code).toBe('service-unavailable');
    }
    expect((await service.as().get('/health/ready')).status).toBe(503);
    expect((await service.as().get('/health/live')).status).toBe(200);

    proxy.accept();
    const back = await Promise.all(Array.from({ length: 6 }, (_, n) => send(service, `away-${n}`)));
    expect(back.map(({ status }) => status)).toEqual(Array.from({ length: 6 }, () => 201));
    expect((await service.as().get('/health/ready')).status).toBe(200);
    expect(await database.counts()).toEqual({ orders: 6, events: 6, keys: 6 });
  });
});
