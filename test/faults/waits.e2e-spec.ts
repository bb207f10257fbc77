import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Post } from '@nestjs/common';
import { Idempotent } from '../../src/idempotency/idempotent.decorator.js';
import { newOrder } from '../support/api-client.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';

@Controller({ path: 'test', version: '1' })
class TestRoutes {
  @Post('nothing')
  @Idempotent({ endpoint: 'test.nothing' })
  nothing(): { done: boolean } {
    return { done: true };
  }
}

describe('how often a keyed request waits for the database', () => {
  let database: TestDatabase;
  let proxy: PostgresProxy;
  let service: TestApp;

  beforeAll(async () => {
    database = await TestDatabase.create();
    proxy = await PostgresProxy.start(database.url);
    service = await TestApp.start({}, { database, databaseUrl: proxy.url, controllers: [TestRoutes] });
    await service.as().post('/v1/test/nothing', {}, 'warm-up'); // connects, and logs in for the next seconds
  });
  afterAll(async () => {
    await service.stop();
    await proxy.stop();
  });

  const turnsOf = async (request: () => Promise<{ status: number }>, status: number): Promise<string[][]> => {
    const recording = proxy.record();
    expect((await request()).status).toBe(status);
    return recording.stop().turns.map((turn) => turn.statements.map((sql) => sql.trim().split(/\s+/, 2).join(' ')));
  };

  it('is two times around a handler that asks nothing: claim, then record and commit', async () => {
    const turns = await turnsOf(() => service.as().post('/v1/test/nothing', {}, 'first'), 201);
    expect(turns).toEqual([
      ['BEGIN; SET', 'INSERT INTO', 'SELECT fingerprint,', 'SET LOCAL'],
      ['UPDATE idempotency_keys', 'COMMIT'],
    ]);
  });

  it('is three times for an order: its one statement, between claim and commit', async () => {
    const turns = await turnsOf(() => service.as().post('/v1/orders', newOrder(), 'order'), 201);
    expect(turns).toHaveLength(3);
    expect(turns[1]).toEqual(['INSERT INTO']);
    expect(turns[2]).toEqual(['INSERT INTO', 'UPDATE idempotency_keys', 'COMMIT']);
  });

  it('is once more than its own statements for a refusal', async () => {
    const order = newOrder({ externalRef: 'taken' });
    await service.as().post('/v1/orders', order, 'taken-1');
    const turns = await turnsOf(() => service.as().post('/v1/orders', order, 'taken-2'), 409);
    expect(turns).toHaveLength(4); // claim; insert; who has the reference; roll back to the savepoint, record, commit
    expect(turns[3]).toEqual(['ROLLBACK TO', 'UPDATE idempotency_keys', 'COMMIT']);
  });

  it('is once for a replay', async () => {
    const turns = await turnsOf(() => service.as().post('/v1/orders', newOrder(), 'order'), 201);
    expect(turns).toEqual([['SELECT fingerprint,']]);
  });

  it('is once for a replay in a process that has not seen the key; nobody waits for its rollback', async () => {
    const other = await TestApp.start({}, { database, databaseUrl: proxy.url });
    try {
      await other.as().get('/v1/orders');
      const turns = await turnsOf(() => other.as().post('/v1/orders', newOrder(), 'order'), 201);
      expect(turns[0]).toEqual(['BEGIN; SET', 'INSERT INTO', 'SELECT fingerprint,', 'SET LOCAL']);
      expect(turns.slice(1)).toEqual(turns.length > 1 ? [['ROLLBACK']] : []);
    } finally {
      await other.app.close();
    }
  });
});
