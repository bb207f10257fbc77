import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { SchedulerRegistry } from '@nestjs/schedule';
import type { CloudEvent } from '../../src/messaging/cloud-event.js';
import { MessagingRetention } from '../../src/messaging/retention.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { createOrder } from '../orders/order-effects.js';
import { consumerOf } from './consumer-of.js';
import { changeOrder, insertEvents, insertOrders } from './outbox-writer.js';
import { allPublished, createEffectTables } from './relay-processes.js';

const KEPT = { EVENT_RETENTION: '10d', INBOX_RETENTION: '20d', RATE_LIMIT: '0' };

let database: TestDatabase;
let proxy: PostgresProxy;
/** Whom nobody receives from. */
let alone: TestApp;
/** Whose events have a consumer. */
let relaying: TestApp;
beforeAll(async () => {
  database = await TestDatabase.create();
  await createEffectTables(database);
  proxy = await PostgresProxy.start(database.url);
  alone = await start({ databaseUrl: proxy.url });
  relaying = await startRelaying();
});
afterAll(async () => {
  await alone.app.close();
  await relaying.app.close();
  await proxy.stop();
  await database.drop();
});
beforeEach(() => database.clear());

/** A replica that removes only when a test says so. */
async function start(parts: Parameters<typeof TestApp.start>[1]): Promise<TestApp> {
  const replica = await TestApp.start(KEPT, { database, ...parts });
  replica.app.get(SchedulerRegistry).deleteInterval('messaging-retention');
  return replica;
}

/** Its consumer refuses each version 7. */
const startRelaying = () =>
  start({
    providers: [
      consumerOf(async ({ aggregateversion }) => {
        if (aggregateversion === '7') throw new Error('never');
      }),
    ],
    messaging: { longestPause: 50, firstDelay: 1, attempts: 1 },
  });

const trim = (service: TestApp) => service.app.get(MessagingRetention).run();
const age = (where = 'true', by = '11 days') =>
  database.query(`UPDATE outbox SET created_at = created_at - interval '${by}' WHERE ${where}`);
const read = (query = '', service = relaying) => service.as().get(`/v1/events?${query}`);
const events = () => database.count('outbox');

describe('events that are older than they are kept', () => {
  it('are removed, in batches of at most 500; younger ones stay', async () => {
    await insertPublished(ACME.tenantId, 200);
    await insertPublished(GLOBEX.tenantId, 100);
    await age(`aggregateversion < 6 AND NOT (tenant_id = '${GLOBEX.tenantId}' AND aggregateversion = 5)`);
    const sizes: number[] = [];
    proxy.onBackend = ({ type, tag, sql }: { type: string; tag?: string; sql?: string }) => {
      if (type === 'CommandComplete' && /^\s*DELETE FROM outbox/.test(sql ?? ''))
        sizes.push(Number(/\d+$/.exec(tag ?? '')));
    };
    expect(await trim(alone)).toBe(1_400);
    proxy.onBackend = undefined;

    expect(await events()).toBe(400);
    expect(sizes.toSorted((one, other) => one - other)).toEqual([400, 500, 500]);
    expect(await trim(alone)).toBe(0);
  });

  it('stay where they are not delivered and there is somebody to deliver to', async () => {
    await insertEvents(database, ACME.tenantId, { aggregates: 1, versions: 10 });
    await allButDead();
    await age();
    expect(await trim(relaying)).toBe(6);
    expect(await database.count('outbox', 'aggregateversion >= 7')).toBe(4);

    await database.query(
      `UPDATE outbox SET published_at = statement_timestamp(), resolution = 'skipped' WHERE dead_at IS NOT NULL`,
    );
    await allPublished(database);
    expect(await trim(relaying)).toBe(4);
  });

  it('are removed undelivered where nobody receives events', async () => {
    await relaying.app.close();
    try {
      await insertEvents(database, ACME.tenantId, { aggregates: 1, versions: 10 });
      await age('aggregateversion < 6');
      expect(await trim(alone)).toBe(5);
      expect(await events()).toBe(5);
    } finally {
      relaying = await startRelaying();
    }
  });

  it('are removed once by two replicas at once', async () => {
    await insertPublished(ACME.tenantId, 250);
    await age();
    const removed = await Promise.all([trim(alone), trim(relaying)]);

    expect(removed[0] + removed[1]).toBe(1_500);
    expect(await events()).toBe(0);
  });
});

/** Of so many aggregates six events each, which no relay has seen before they were published. */
async function insertPublished(tenantId: string, aggregates: number): Promise<void> {
  const client = await database.connect();
  await client.query('BEGIN');
  await insertEvents(client, tenantId, { aggregates, versions: 6 });
  await client.query('UPDATE outbox SET published_at = statement_timestamp()');
  await client.query('COMMIT');
  await client.end();
}

/** Version 7 is dead, and those behind it wait. */
async function allButDead(): Promise<void> {
  await waitFor(async () => (await database.count('outbox', 'published_at IS NULL AND dead_at IS NULL')) === 3);
}

describe('a reader', () => {
  it('whose cursor is older than what was removed is told so: 410 cursor-expired', async () => {
    const empty = (await read()).body.nextCursor as string;
    await insertEvents(database, ACME.tenantId, { aggregates: 1, versions: 6 });
    await allPublished(database);
    const at2 = (await read('limit=2')).body.nextCursor as string;
    const at4 = (await read('limit=4')).body.nextCursor as string;
    await age('aggregateversion <= 4');
    expect((await read(`after=${at2}`)).status).toBe(200); // it is all there still
    await trim(relaying);

    for (const cursor of [empty, at2]) {
      const { status, body } = await read(`after=${cursor}`);
      expect([status, body.code]).toEqual([410, 'cursor-expired']);
      expect((await read(`after=${cursor}`, alone)).status).toBe(410);
    }
    const behind = await read(`after=${at4}`);
    expect([behind.status, behind.body.data.length]).toEqual([200, 2]);
    const oldest = await read();
    expect(oldest.body).toEqual(behind.body);
    expect((await read(`after=${at2}`, relaying)).body.detail).toMatch(/older/);
  });

  it('that begins where everything was removed follows from there and misses nothing', async () => {
    await insertEvents(database, ACME.tenantId, { aggregates: 1, versions: 3 });
    await allPublished(database);
    await age();
    await trim(relaying);
    const begun = await read();
    expect(begun.body.data).toEqual([]);
    expect(await read(`after=${begun.body.nextCursor}`)).toMatchObject({ status: 200, body: begun.body });

    const { id } = await createOrder(relaying);
    const next = await read(`after=${begun.body.nextCursor}`);
    expect(next.body.data).toMatchObject([{ subject: id }]);
    expect((await read(`after=${next.body.nextCursor}`)).status).toBe(200);
    await allPublished(database);
    await age();
    await trim(relaying);
    expect((await read(`after=${begun.body.nextCursor}`)).status).toBe(410);
    expect((await read(`after=${next.body.nextCursor}`)).status).toBe(200);
  });

  it('that begins with what was kept undelivered goes on, page by page', async () => {
    await insertEvents(database, ACME.tenantId, { aggregates: 1, versions: 10 });
    await allButDead();
    await createOrder(relaying);
    await allButDead();
    await read(); // gives positions
    await database.query(`UPDATE outbox SET published_at = now() WHERE aggregateversion = 10`);
    await age();
    await trim(relaying); // 7 to 9 stay, 10 and the order are gone
    const versions: string[] = [];
    for (let after = '', page; ; after = `&after=${page.body.nextCursor}`) {
      page = await read(`limit=1${after}`);
      expect(page.status).toBe(200);
      if (page.body.data.length === 0) break;
      versions.push(page.body.data[0].aggregateversion as string);
    }
    expect(versions).toEqual(['7', '8', '9']);
  });

  it('that keeps up misses nothing and sees nothing twice, while writers write and old ones are removed', async () => {
    const orders = await insertOrders(database, ACME.tenantId, 10);
    const written = new Set((await database.query<{ id: string }>('SELECT id FROM outbox')).map(({ id }) => id));
    let over = false;
    const writing = Promise.all(
      [0, 1, 2].map(async (writer) => {
        const client = await database.connect();
        for (let n = 0; n < 80; n++) {
          await client.query('BEGIN');
          const id = await changeOrder(client, ACME.tenantId, orders[(n * 3 + writer) % orders.length]!);
          await client.query(n % 6 === 5 ? 'ROLLBACK' : 'COMMIT');
          if (n % 6 !== 5) written.add(id);
        }
        await client.end();
      }),
    ).finally(() => (over = true));

    const seen: CloudEvent[] = [];
    let read410 = 0;
    for (let after = ''; ;) {
      const last = over;
      const { status, body } = await read(`limit=20${after}`, alone);
      if (status === 410) read410++;
      expect(status).toBe(200);
      seen.push(...(body.data as CloudEvent[]));
      after = `&after=${body.nextCursor}`;
      // What was read is old by now, as far as it is delivered.
      // One row at a time: several in one statement would meet the relay's, in another order, and deadlock.
      for (const { id } of body.data as CloudEvent[]) await age(`id = '${id}'`);
      await Promise.all([trim(alone), trim(relaying)]);
      if (last && body.data.length === 0) break;
    }
    await writing;

    expect(read410).toBe(0);
    expect(seen.map(({ id }) => id).sort()).toEqual([...written].sort());
    expect(new Set(seen.map(({ id }) => id)).size).toBe(seen.length);
    expect(await events()).toBeLessThan(written.size);
  });
});

describe('what the inbox remembers', () => {
  it('is forgotten after its own retention, in batches, once by two replicas', async () => {
    const insert = (count: number, days: number) =>
      database.query(
        `INSERT INTO processed_messages (tenant_id, consumer, message_id, fingerprint, processed_at)
         SELECT $1, 'c' || n % 2, 'm' || n || '-' || $3, '', statement_timestamp() - $3::int * interval '1 day'
         FROM generate_series(1, $2::int) n`,
        [ACME.tenantId, count, days],
      );
    await insert(1_200, 21);
    await insert(50, 19);
    const removed = await Promise.all([trim(alone), trim(relaying)]);

    expect(removed[0] + removed[1]).toBe(1_200);
    // Beside them the relay may still be writing down what the test before has caused.
    expect(await database.count('processed_messages', "consumer IN ('c0', 'c1')")).toBe(50);
    expect(await trim(alone)).toBe(0);
  });
});
