import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import type { GetMessage } from 'amqplib';
import { Random } from '../long/random.js';
import { ServiceProcess } from '../support/service-process.js';
import type { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { describeWithBroker, TestBroker } from './broker.js';
import { countingDatabase, DELAYS, startCountingService } from './counting.js';

const FULL = process.env.TEST_FULL === '1';
const SEED = Number(process.env.CHAOS_SEED ?? 20_260_102);
const AGGREGATES = FULL ? 200 : 50;
const VERSIONS = FULL ? 25 : 10;
const EVENTS = AGGREGATES * VERSIONS;

/** A relay and a consumer of the three, over all its lives. */
class Replica {
  constructor(
    private service: ServiceProcess,
    private readonly start: () => Promise<ServiceProcess>,
  ) {}

  async killAndReplace(): Promise<void> {
    await this.service.kill();
    this.service = await this.start();
  }

  /** Longer than its lease of the events that it has taken. */
  async stall(milliseconds: number): Promise<void> {
    this.service.signal('SIGSTOP');
    await sleep(milliseconds);
    this.service.signal('SIGCONT');
  }

  stop(): Promise<number | null> {
    return this.service.stop();
  }
}

let broker: TestBroker;
let database: TestDatabase;
let tenantId: string;
let replicas: Replica[];

beforeAll(async () => {
  if (!process.env.RABBITMQ_URL) return;
  broker = await TestBroker.open(['count']);
  await broker.watch();
  ({ database, tenantId } = await countingDatabase());
  const start = () => startCountingService(database.url, broker);
  replicas = await Promise.all([0, 1, 2].map(async () => new Replica(await start(), start)));
});
afterAll(async () => {
  if (!process.env.RABBITMQ_URL) return;
  await ServiceProcess.killAll();
  await database.drop();
  await broker.close(DELAYS);
});

/** The next change of each aggregate: enough for all of the relays, which are busy with it when a misfortune happens. */
async function writeVersion(version: number): Promise<void> {
  await database.query(
    `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
     SELECT $1, gen_random_uuid(), 'order', md5(number::text)::uuid, $2, 'order.updated', '{}'
     FROM generate_series(1, $3::int) number`,
    [tenantId, version, AGGREGATES],
  );
}

/** Something happens to one of them, or to two at a time. */
async function misfortune(random: Random): Promise<void> {
  await sleep(random.between(0, 300));
  const [one, other] = random.chance(0.5)
    ? [replicas[0]!, replicas[1]!]
    : [replicas[2]!, replicas[random.between(0, 1)]!];
  const happen = (replica: Replica) =>
    random.chance(0.5) ? replica.killAndReplace() : replica.stall(random.between(1_000, 3_000));
  await Promise.all(random.chance(0.3) ? [happen(one), happen(other)] : [happen(one)]);
}

interface Seen {
  readonly subject: string;
  readonly version: number;
  readonly messageId: string;
  readonly bytes: string;
}

function seen({ content, properties }: GetMessage): Seen {
  const { id, subject, aggregateversion } = JSON.parse(content.toString());
  expect(properties.messageId).toBe(id);
  return { subject, version: Number(aggregateversion), messageId: id, bytes: content.toString() };
}

describeWithBroker(`${EVENTS} events, three relays and consumers that are killed and stall, seed ${SEED}`, () => {
  it('none is lost, none overtakes another of its aggregate, repeats carry their first id, each takes effect once', async () => {
    const random = new Random(SEED, 0);
    let misfortunes = 0;
    for (let version = 1; version <= VERSIONS; version++) {
      await writeVersion(version);
      await misfortune(random);
      misfortunes++;
    }
    const left = async () => ({
      unpublished: await database.count('outbox', 'published_at IS NULL'),
      notApplied: EVENTS - (await database.count('effects')),
    });
    await waitFor(async () => Object.values(await left()).every((count) => count === 0), {
      timeoutMs: 120_000,
      description: 'everything to be published and applied',
    });
    for (const replica of replicas) expect(await replica.stop()).toBe(0);

    const arrivals = (await broker.drain('watch')).map(seen);
    const firsts = new Map<string, Seen>();
    for (const arrival of arrivals) {
      const change = `${arrival.subject} ${arrival.version}`;
      expect(firsts.get(change) ?? arrival).toEqual(arrival);
      if (!firsts.has(change)) firsts.set(change, arrival);
    }
    expect(firsts.size).toBe(EVENTS);
    const versions = new Map<string, number>();
    for (const { subject, version } of firsts.values()) {
      expect(version).toBe((versions.get(subject) ?? 0) + 1);
      versions.set(subject, version);
    }
    const [effects] = await database.query<{ all: number; distinct: number }>(
      'SELECT count(*)::int AS all, count(DISTINCT event_id)::int AS distinct FROM effects',
    );
    expect(effects).toEqual({ all: EVENTS, distinct: EVENTS });
    expect(await broker.depth('count')).toBe(0);
    expect(await broker.depth('dead')).toBe(0);
    console.log(`${misfortunes} misfortunes, ${arrivals.length - EVENTS} repeats`);
  }, 600_000);
});
