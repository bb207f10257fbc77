import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { PostgresProxy, type Verdict, type WireMessage } from '../support/postgres-proxy.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { consumerOf } from './consumer-of.js';
import { insertEvent } from './outbox-writer.js';
import { allPublished, createEffectTables, expectEffectsOnce, startRelay } from './relay-processes.js';

const FULL = process.env.TEST_FULL === '1';
/** Processes start slowly: all of their boundaries under TEST_FULL, else every fifth. */
const STRIDE = FULL ? 1 : 5;
jest.setTimeout(FULL ? 600_000 : 180_000);

const TIMES = { relayLease: 400, longestPause: 50, firstDelay: 20 };

let database: TestDatabase;
let proxy: PostgresProxy;
beforeAll(async () => {
  database = await TestDatabase.create();
  await createEffectTables(database);
  proxy = await PostgresProxy.start(database.url);
});
afterAll(async () => {
  await ServiceProcess.killAll();
  await proxy.stop();
  await database.drop();
});
beforeEach(() => database.clear());

/** The last message of each statement of the relay's course; its looks whether there is anything are no part of that. */
const belongs = ({ last, sql }: WireMessage): boolean =>
  last === true && sql !== undefined && !/RECURSIVE tenants|^SET |version\(\)|current_schema|^SHOW/i.test(sql);

/** Two events of one aggregate. */
async function insertTwo(): Promise<void> {
  const aggregateId = randomUUID();
  const client = await database.connect();
  await client.query('BEGIN');
  for (const version of [1, 2]) await insertEvent(client, ACME.tenantId, { id: randomUUID(), aggregateId, version });
  await client.query('COMMIT');
  await client.end();
}

/**
 * Lets the `n`th message of the course meet its verdict.
 *
 * @returns what was met; undefined once the events are published and the course had no `n`th message
 */
async function meet(
  n: number,
  verdict: (message: WireMessage) => Verdict | Promise<Verdict>,
): Promise<string | undefined> {
  let count = 0;
  let met: string | undefined;
  const onFrontend = (message: WireMessage) => {
    if (!belongs(message) || ++count !== n) return 'pass';
    met = message.sql!.trim().replace(/\s+/g, ' ').slice(0, 60);
    return verdict(message);
  };
  proxy.onFrontend = onFrontend;
  await insertTwo();
  await waitFor(async () => met !== undefined || (await database.count('outbox', 'published_at IS NULL')) === 0, {
    timeoutMs: 20_000,
    description: `message ${n} of the course, or its end`,
  });
  return met;
}

async function expectAllDone(): Promise<void> {
  await allPublished(database);
  await expectEffectsOnce(database);
  expect(await database.count('processed_messages')).toBe(await database.count('outbox'));
  expect(await database.count('outbox', 'dead_at IS NOT NULL OR lease_token IS NOT NULL')).toBe(0);
}

describe.each(['cut', 'pass-then-cut'] as const)('a connection that is lost (%s)', (verdict) => {
  it('at any message of the course leaves every event published and its effect once', async () => {
    const service = await TestApp.start(
      {},
      { database, databaseUrl: proxy.url, providers: [consumerOf()], messaging: TIMES },
    );
    const boundaries: string[] = [];
    try {
      for (let n = 1; ; n++) {
        const met = await meet(n, () => verdict);
        await expectAllDone();
        if (met === undefined) break;
        boundaries.push(met);
      }
    } finally {
      proxy.onFrontend = undefined;
      await service.app.close();
    }
    console.log(`${verdict}: ${boundaries.length} boundaries\n${boundaries.join('\n')}`);
    const course = boundaries.join('\n');
    for (const part of [
      'RECURSIVE heads',
      'SELECT id, aggregateid',
      'lease_token = $3',
      'processed_messages',
      'INTO effects',
    ]) {
      expect(course).toContain(part);
    }
    expect(boundaries.filter((sql) => sql === 'COMMIT').length).toBeGreaterThanOrEqual(4);
  });
});

describe('a process that is killed', () => {
  it('at any message of the course leaves every event to the next, and its effect happens once', async () => {
    const killed: string[] = [];
    for (let n = 1; ; n += STRIDE) {
      // It first does what the one before has left, and then meets its own end.
      const process = await startRelay(proxy.url, TIMES);
      await expectAllDone();
      const met = await meet(n, async () => {
        await process.kill();
        return n % 2 === 0 ? 'cut' : 'pass-then-cut';
      });
      proxy.onFrontend = undefined;
      if (met !== undefined) killed.push(`${n} ${met}`);
      await process.kill();
      if (met === undefined) break;
    }
    const last = await startRelay(proxy.url, TIMES);
    await expectAllDone();
    await last.kill();
    console.log(`killed at ${killed.length} boundaries\n${killed.join('\n')}`);
    expect(killed.length).toBeGreaterThanOrEqual(FULL ? 15 : 3);
  });
});
