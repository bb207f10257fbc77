import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Relay } from '../../src/messaging/relay.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { createOrder } from '../orders/order-effects.js';
import { consumerOf } from './consumer-of.js';
import { changeOrder, insertEvent, insertEvents, insertOrders } from './outbox-writer.js';
import { allPublished, createEffectTables, expectEffectsOnce } from './relay-processes.js';

let database: TestDatabase;
let proxy: PostgresProxy;
let relays: TestApp[];
/** Whether consumers refuse. */
let refuses: boolean;
beforeAll(async () => {
  database = await TestDatabase.create();
  await createEffectTables(database);
  proxy = await PostgresProxy.start(database.url);
});
afterAll(async () => {
  await proxy.stop();
  await database.drop();
});
beforeEach(async () => {
  relays = [];
  refuses = false;
  await database.clear();
});
afterEach(() => Promise.all(relays.map(({ app }) => app.close())));

async function start(databaseUrl = database.url): Promise<TestApp> {
  const consumer = consumerOf(async () => {
    if (refuses) throw new Error('refused');
  });
  const relay = await TestApp.start(
    {},
    { database, databaseUrl, providers: [consumer], messaging: { longestPause: 50, firstDelay: 20 } },
  );
  relays.push(relay);
  return relay;
}

describe('two relays', () => {
  it('deliver an event of a lower id that commits later, and what is behind it in its turn (K20)', async () => {
    const relay = await start();
    await start();
    const early = { id: '00000000-0000-7000-8000-000000000001', aggregateId: randomUUID(), version: 1 };
    const slow = await database.connect();
    await slow.query('BEGIN');
    await insertEvent(slow, ACME.tenantId, early);
    await createOrder(relay);
    await allPublished(database);
    expect(await database.count('effects')).toBe(1);
    await slow.query('COMMIT');
    await slow.end();
    await waitFor(async () => (await database.count('effects')) === 2, { description: 'the late event' });

    await allPublished(database);
    await expectEffectsOnce(database);
  });

  it('share what is there: each event has its effect once, in the order of versions, while writers go on', async () => {
    await Promise.all([start(), start()]);
    const orders = await insertOrders(database, ACME.tenantId, 20);
    await Promise.all(
      [0, 1, 2, 3].map(async (writer) => {
        const client = await database.connect();
        for (let n = 0; n < 40; n++) {
          await client.query('BEGIN');
          await changeOrder(client, ACME.tenantId, orders[(n * 7 + writer) % orders.length]!);
          await client.query(n % 5 === 4 ? 'ROLLBACK' : 'COMMIT');
        }
        await client.end();
      }),
    );
    await allPublished(database);

    await expectEffectsOnce(database);
    expect(await database.count('effects')).toBe(20 + 4 * 32);
    expect(await database.count('outbox', 'attempts_started <> attempts_finished OR lease_token IS NOT NULL')).toBe(0);
  });
});

describe('a relay that is held up while it takes events', () => {
  it('holds up no other relay', async () => {
    const [first, second] = [ACME.tenantId, GLOBEX.tenantId].sort();
    await start(proxy.url);
    const taking = proxy.hold(statement.starts(/attempts_started = attempts_started \+ 1/));
    await insertEvents(database, first!, { aggregates: 3, versions: 2 });
    await taking.reached;
    await start();
    await insertEvents(database, second!, { aggregates: 3, versions: 2 });
    await waitFor(async () => (await database.count('outbox', 'published_at IS NOT NULL')) === 6, {
      timeoutMs: 4_500, // less than a wait for a lock may take
      description: 'the events of the other tenant',
    });
    taking.release();
    await allPublished(database);
    await expectEffectsOnce(database);
    expect(await database.count('outbox', 'attempts_started <> 1')).toBe(0);
  });
});

describe('a relay that comes to its marks when another has taken over', () => {
  const OTHER = randomUUID();
  const state = async () =>
    (
      await database.query<Record<string, unknown>>(
        `SELECT lease_token, attempts_started, attempts_finished, available_at, dead_at, published_at FROM outbox`,
      )
    )[0]!;

  it.each([
    ['of what it has published', false, /published_at = statement_timestamp/],
    ['of what was refused', true, /dead_reason = \$4/],
  ])('changes nothing: marks %s', async (_, refused, mark) => {
    refuses = refused;
    await start(proxy.url);
    const marking = proxy.hold(statement.starts(mark));
    await insertEvents(database, ACME.tenantId, { aggregates: 1, versions: 1 });
    await marking.reached;
    await database.query(
      `UPDATE outbox SET lease_token = $1, lease_until = statement_timestamp() + interval '1 hour',
         attempts_started = attempts_started + 1`,
      [OTHER],
    );
    const before = await state();
    const marked = proxy.once(statement.isAnswered('COMMIT'), 'pass');
    marking.release();
    await marked;

    expect(await state()).toEqual(before);
    expect(before).toMatchObject({ lease_token: OTHER, attempts_started: 2, attempts_finished: 0, published_at: null });
    refuses = false;
    await database.query('UPDATE outbox SET lease_until = statement_timestamp()');
    await allPublished(database);
    await expectEffectsOnce(database);
  });

  it('gives back nothing that is not its own', async () => {
    const relay = await start(proxy.url);
    const delivering = proxy.hold(statement.starts(/INTO processed_messages/));
    await insertEvents(database, ACME.tenantId, { aggregates: 1, versions: 3 });
    await delivering.reached;
    await database.query('UPDATE outbox SET lease_token = $1 WHERE aggregateversion > 1', [OTHER]);
    const closing = relay.app.close();
    const seen: { stopping?: boolean } = relay.app.get(Relay);
    await waitFor(() => seen.stopping, { description: 'the relay to be told' });
    delivering.release();
    await closing;
    relays = [];

    expect(await database.count('effects')).toBe(1);
    expect(await database.count('outbox', 'published_at IS NOT NULL')).toBe(1);
    expect(await database.count('outbox', 'lease_token = $1 AND attempts_started = 1', [OTHER])).toBe(2);
  });
});
