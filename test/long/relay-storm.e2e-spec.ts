import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import {
  allPublished,
  createEffectTables,
  expectDeliveriesInOrder,
  expectEffectsOnce,
  startRelay,
} from '../messaging/relay-processes.js';
import { seeded } from '../orders/seeded.js';

const FULL = process.env.TEST_FULL === '1';
const AGGREGATES = FULL ? 200 : 50;
const VERSIONS = FULL ? 25 : 10;
const RELAYS = 3;
/** Milliseconds in which relays are killed and stalled. */
const DISTURBED = FULL ? 60_000 : 8_000;
const LEASE = 1_000;
jest.setTimeout(DISTURBED + 180_000);

describe('three relays that are killed and stalled at random', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await TestDatabase.create();
    await createEffectTables(database);
  });
  afterAll(async () => {
    await ServiceProcess.killAll();
    await database.drop();
  });

  it('lose no event, keep the order of each aggregate and its message ids, and every effect happens once', () =>
    seeded(async (random) => {
      const start = () =>
        startRelay(database.url, { relayLease: LEASE, longestPause: 100 }, { NOTE_DELIVERIES: 'true' });
      const begun = await Promise.all(Array.from({ length: RELAYS }, start));
      const until = Date.now() + DISTURBED;
      const faults = { killed: 0, stalled: 0 };

      /** One of the three: while it is time, it is killed and started anew, or stalled past its lease. */
      const disturb = async (relay: ServiceProcess): Promise<void> => {
        while (Date.now() < until) {
          await sleep(random() * 1_500);
          if (random() < 0.5) {
            await relay.kill();
            faults.killed++;
            relay = await start();
          } else {
            relay.signal('SIGSTOP');
            faults.stalled++;
            await sleep(random() * 2.5 * LEASE);
            relay.signal('SIGCONT');
          }
        }
      };
      const disturbance = Promise.all(begun.map(disturb));
      disturbance.catch(() => undefined);

      await database.query(
        `CREATE TABLE subjects AS SELECT gen_random_uuid() AS id FROM generate_series(1, ${AGGREGATES})`,
      );
      for (let version = 1; version <= VERSIONS; version++) {
        await database.query(
          `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
           SELECT $1, gen_random_uuid(), 'order', id, $2::int, 'order.updated', '{}' FROM subjects`,
          [ACME.tenantId, version],
        );
        await sleep((0.9 * DISTURBED) / VERSIONS);
      }
      await disturbance;
      await allPublished(database, 120_000);

      await expectEffectsOnce(database);
      await expectDeliveriesInOrder(database);
      const events = AGGREGATES * VERSIONS;
      expect(await database.count('effects')).toBe(events);
      expect(await database.count('processed_messages')).toBe(events);
      expect(await database.count('outbox', 'dead_at IS NOT NULL')).toBe(0);
      expect(faults.killed + faults.stalled).toBeGreaterThan(2);
      const deliveries = await database.count('deliveries');
      console.log(`${events} events, ${deliveries} deliveries, ${faults.killed} kills, ${faults.stalled} stalls`);
    }));
});
