import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { ServiceProcess } from '../support/service-process.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { consumerOf } from './consumer-of.js';
import { insertEvents } from './outbox-writer.js';
import { createEffectTables, startRelay } from './relay-processes.js';

const FULL = process.env.TEST_FULL === '1';
jest.setTimeout(180_000);

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.create();
  await createEffectTables(database);
  // Each end of an attempt and each beginning, by the clock of the database.
  await database.query(`
    CREATE TABLE attempts (seq bigserial, started integer, finished integer, delay float8, early float8);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO attempts (started, finished, delay, early) VALUES (
        NEW.attempts_started, NEW.attempts_finished,
        extract(epoch FROM NEW.available_at - statement_timestamp()) * 1000,
        extract(epoch FROM OLD.available_at - statement_timestamp()) * 1000);
      RETURN NULL;
    END $$;
    CREATE TRIGGER note AFTER UPDATE OF attempts_started, attempts_finished ON outbox
      FOR EACH ROW WHEN (NEW.type = 'order.created') EXECUTE FUNCTION note()`);
});
afterAll(async () => {
  await ServiceProcess.killAll();
  await database.drop();
});
beforeEach(() => database.clear());

const poison = (tenantId: string = ACME.tenantId) =>
  database.query(
    `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
     SELECT $1, gen_random_uuid(), 'order', '00000000-0000-4000-8000-000000000000', version,
            CASE version WHEN 1 THEN 'order.created' ELSE 'order.updated' END, '{}'
     FROM generate_series(1, 3) version`,
    [tenantId],
  );
const dead = () => database.count('outbox', 'dead_at IS NOT NULL');
const othersPublished = (count: number) =>
  waitFor(async () => (await database.count('outbox', 'published_at IS NOT NULL')) === count, {
    description: `${count} other events to be published`,
  });

/** A relay whose consumer does with `order.created` what a test wants; its own lock waits are short. */
async function withRelay(onCreated: () => Promise<void>, work: (relay: TestApp) => Promise<void>): Promise<void> {
  const consumer = consumerOf(async ({ type }, transaction) => {
    await transaction.query('SET LOCAL lock_timeout = 100');
    if (type === 'order.created') await onCreated();
    if (type === 'order.created') await transaction.query('LOCK TABLE behaviours IN ACCESS EXCLUSIVE MODE');
  });
  const relay = await TestApp.start(
    {},
    { database, providers: [consumer], messaging: { longestPause: 50, firstDelay: 100, attempts: 4 } },
  );
  try {
    await work(relay);
  } finally {
    await relay.app.close();
  }
}

describe('an event that is always refused', () => {
  it('is tried again twice as late each time, and put aside with the reason; no other waits for it', () =>
    withRelay(
      async () => {
        throw new Error('never');
      },
      async () => {
        await poison();
        await insertEvents(database, ACME.tenantId, { aggregates: 60, versions: 2 });
        await insertEvents(database, GLOBEX.tenantId, { aggregates: 5, versions: 2 });
        await othersPublished(130);
        await waitFor(async () => (await dead()) === 1, { description: 'the event to be dead' });

        const attempts = await database.query<Record<string, number>>('SELECT * FROM attempts ORDER BY seq');
        expect(attempts.map(({ started, finished }) => [started, finished])).toEqual([
          [1, 0],
          [1, 1],
          [2, 1],
          [2, 2],
          [3, 2],
          [3, 3],
          [4, 3],
          [4, 4],
        ]);
        const delays = attempts.filter((_, n) => n % 2 === 1).map(({ delay }) => Math.round(delay!));
        expect(delays).toEqual([100, 200, 400, 800]);
        // None begins before its time.
        expect(attempts.every(({ started, early }) => started === 1 || early! <= 0)).toBe(true);
        const [event] = await database.query('SELECT * FROM outbox WHERE dead_at IS NOT NULL');
        expect(event).toMatchObject({
          aggregateversion: 1,
          dead_reason: expect.stringMatching(/^test\.created: Error: never$/),
          lease_token: null,
          published_at: null,
        });
        expect(await database.count('effects')).toBe(130);
        expect(await database.count('outbox', 'published_at IS NULL AND attempts_started = 0')).toBe(2); // behind it
      },
    ));

  it('is put aside though its reason is nothing that Postgres can store', () =>
    withRelay(
      async () => {
        throw new Error(`nothing \0 to store ${'x'.repeat(100_000)}`);
      },
      async () => {
        await poison();
        await insertEvents(database, ACME.tenantId, { aggregates: 3, versions: 2 });
        await waitFor(async () => (await dead()) === 1, { description: 'the event to be dead' });
        await othersPublished(6);
        expect(await database.count('outbox', `dead_reason LIKE '%nothing  to store%'`)).toBe(1);
        expect(await database.count('effects')).toBe(6);
      },
    ));

  it('by a lock or a time limit holds up no other tenant, whichever comes first', async () => {
    const holder = await database.connect();
    await holder.query('BEGIN; LOCK TABLE behaviours');
    try {
      await withRelay(
        async () => undefined,
        async () => {
          for (const tenant of [ACME, GLOBEX]) await poison(tenant.tenantId);
          for (const tenant of [ACME, GLOBEX]) {
            await insertEvents(database, tenant.tenantId, { aggregates: 60, versions: 2 });
          }
          await othersPublished(240);
          await waitFor(async () => (await dead()) === 2, { description: 'both to be dead' });
          expect(await database.count('effects')).toBe(240);
        },
      );
    } finally {
      await holder.end();
    }
  });

  it('waits at most five minutes', () =>
    withRelay(
      async () => {
        throw new Error('never');
      },
      async () => {
        await poison();
        await waitFor(() => database.count('attempts', 'finished = 1'), { description: 'the first attempt' });
        await database.query(`UPDATE outbox SET available_at = NULL, attempts_started = 30, attempts_finished = 30, dead_at = NULL
                              WHERE type = 'order.created'`);
        await waitFor(() => database.count('attempts', 'finished = 31'), { description: 'a late attempt' });
        const [late] = await database.query<{ delay: number }>('SELECT delay FROM attempts WHERE finished = 31');
        expect(Math.round(late!.delay)).toBe(300_000);
      },
    ));
});

describe('an event in the middle of which every relay ends', () => {
  it('is put aside after some attempts, and nothing else with it', async () => {
    await poison();
    await database.query(`INSERT INTO behaviours VALUES ('00000000-0000-4000-8000-000000000000', 'exit')`);
    await insertEvents(database, ACME.tenantId, { aggregates: 5, versions: 3 });
    // As if it had ended some relays before, together with all that were in their batches.
    const before = FULL ? 0 : 7;
    await database.query('UPDATE outbox SET attempts_started = $1', [before]);
    let exits = 0;
    for (;;) {
      const relay = await startRelay(database.url, { relayLease: 300, longestPause: 50 }).catch(() => undefined);
      const isDead = async () => (await dead()) === 1;
      const ended = relay?.exited.then(({ code }) => code);
      const code = await Promise.race([
        ended ?? 9,
        waitFor(isDead, { timeoutMs: 20_000, description: 'an exit or a dead event' }).then(() => 'dead' as const),
      ]);
      if (code === 'dead') break;
      expect(code).toBe(9);
      expect(++exits).toBeLessThanOrEqual(10 - before);
    }
    await othersPublished(15);

    expect(exits).toBe(10 - before);
    expect(await database.count('effects')).toBe(15);
    const [event] = await database.query('SELECT * FROM outbox WHERE dead_at IS NOT NULL');
    expect(event).toMatchObject({ aggregateversion: 1, attempts_started: 10, attempts_finished: 0 });
    expect(event!.dead_reason).toMatch(/ended/);
    await ServiceProcess.killAll();
  });
});
