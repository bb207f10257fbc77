import { Agent, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type ApiResponse, newOrder } from '../support/api-client.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { FEED, openEpoch, records, sendBatch } from '../feeds/feeding.js';
import { tally } from '../orders/order-effects.js';

const FULL = process.env.TEST_FULL === '1';
const RECORDS = FULL ? 100_000 : 10_000;
const MEASURED = FULL ? 2_000 : 200;
const BATCH = 500;
const SOCKETS = 10;
const MINUTE = 60_000;

/** What befalls a batch. Each is met once in six batches. */
const FAULTS = ['none', 'reply lost', 'none', 'client gone', 'never committed', 'repeated with more'] as const;
type Fault = (typeof FAULTS)[number];

let database: TestDatabase;
let proxy: PostgresProxy;
let service: TestApp;
beforeAll(async () => {
  database = await TestDatabase.create();
  proxy = await PostgresProxy.start(database.url);
  service = await TestApp.start({ RATE_LIMIT: '0' }, { database, databaseUrl: proxy.url });
});
afterAll(async () => {
  await service.stop();
  await proxy.stop();
});

/** Sends a batch and goes away while it is applied. */
async function sendAndLeave(epoch: number, first: number, last: number): Promise<void> {
  const body = JSON.stringify({ epoch, firstSequence: first, records: records(first, last) });
  const left = new Promise((resolve) => {
    const sent = request(`${service.baseUrl}/v1/feeds/${FEED}/records`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${ACME.key}`, 'Content-Type': 'application/json' },
    });
    sent.on('error', resolve);
    sent.on('response', (response) => response.resume().on('end', resolve)); // it was all taken before
    void proxy.once(statement.starts(/INSERT INTO orders/), () => {
      sent.destroy();
      return 'pass';
    });
    sent.end(body);
  });
  await left;
}

/** A sender that numbers its records, and whatever befalls it sends again from what it last got acknowledged. */
class Sender {
  readonly befell = new Map<Fault, number>();
  duplicates = 0;

  constructor(
    readonly epoch: number,
    public acknowledged: number,
  ) {}

  /** Sends everything up to that number. */
  async sendUpTo(end: number): Promise<void> {
    for (let round = 0; this.acknowledged < end; round++) {
      const first = this.acknowledged + 1;
      const last = Math.min(this.acknowledged + BATCH, end);
      await this.suffer(FAULTS[round % FAULTS.length]!, first, last);
    }
  }

  private async suffer(fault: Fault, first: number, last: number): Promise<void> {
    this.befell.set(fault, (this.befell.get(fault) ?? 0) + 1);
    if (fault === 'client gone') await sendAndLeave(this.epoch, first, last);
    if (fault === 'repeated with more') await this.send(first, first + Math.floor((last - first) / 2));
    if (fault === 'reply lost') void proxy.once(statement.isAnswered('COMMIT'), 'cut');
    if (fault === 'never committed') void proxy.once(statement.starts('COMMIT'), 'cut');
    for (let answer = await this.send(first, last); answer.status !== 200;) {
      expect([answer.status, answer.text]).toEqual([503, answer.text]);
      answer = await this.send(first, last);
    }
  }

  private async send(first: number, last: number): Promise<ApiResponse> {
    const answer = await sendBatch(service, this.epoch, first, last);
    if (answer.status === 200) {
      expect(answer.body.lastSequence).toBeGreaterThanOrEqual(last);
      this.acknowledged = last;
      this.duplicates += answer.body.duplicates as number;
    }
    return answer;
  }
}

describe(`a feed of ${RECORDS} records, with lost replies, repeats, two epochs and a zombie`, () => {
  let zombie: Sender;
  let successor: Sender;
  /** What the zombie is answered, from the moment on at which its successor's epoch is open. */
  let refusals: ApiResponse[];

  beforeAll(async () => {
    zombie = new Sender(await openEpoch(service), 0);
    await zombie.sendUpTo(RECORDS / 2);
    // The successor knows less than has arrived: it begins three batches before.
    successor = new Sender(await openEpoch(service), zombie.acknowledged - 3 * BATCH);
    const haunting = { over: false };
    const [answers] = await Promise.all([
      haunt(haunting),
      successor.sendUpTo(RECORDS).finally(() => (haunting.over = true)),
    ]);
    refusals = answers;
  }, 20 * MINUTE);

  async function haunt(haunting: { over: boolean }): Promise<ApiResponse[]> {
    const answers: ApiResponse[] = [];
    for (let first = zombie.acknowledged + 1; !haunting.over; first += 5) {
      answers.push(await sendBatch(service, zombie.epoch, first, first + 4));
    }
    return answers;
  }

  it('met every fault', () => {
    for (const sender of [zombie, successor])
      expect([...sender.befell.keys()].sort()).toEqual([...new Set(FAULTS)].sort());
    expect(successor.duplicates).toBeGreaterThanOrEqual(3 * BATCH);
  });

  it(`made ${RECORDS} orders, none twice, each with its event`, async () => {
    const { orders, events, keys } = await database.counts();
    expect({ orders, events, keys }).toEqual({ orders: RECORDS, events: RECORDS, keys: 0 });
    const [row] = await database.query<{ refs: number; told: number }>(
      `SELECT count(DISTINCT external_ref)::int AS refs, count(DISTINCT aggregateid)::int AS told
       FROM orders JOIN outbox ON (outbox.tenant_id, outbox.aggregateid) = (orders.tenant_id, orders.id)`,
    );
    expect(row).toEqual({ refs: RECORDS, told: RECORDS });
    expect((await service.as().get(`/v1/feeds/${FEED}`)).body).toEqual({ feed: FEED, epoch: 2, lastSequence: RECORDS });
    expect(await database.count('feed_batches')).toBe(5);
  });

  it('refused the zombie every time', () => {
    expect(refusals.length).toBeGreaterThan(0);
    expect(refusals.map(({ status, body }) => [status, body.code, body.currentEpoch])).toEqual(
      refusals.map(() => [409, 'epoch-fenced', successor.epoch]),
    );
  });
});

describe('records of a feed, beside as many orders under keys', () => {
  let measuredDatabase: TestDatabase;
  let process: ServiceProcess;
  beforeAll(async () => {
    measuredDatabase = await TestDatabase.create();
    const settings = { SEED_DEMO_TENANTS: 'true', RATE_LIMIT: '0', LOG_LEVEL: 'error' };
    process = await ServiceProcess.start({ DATABASE_URL: measuredDatabase.url, ...settings });
  });
  afterAll(async () => {
    await ServiceProcess.killAll();
    await measuredDatabase.drop();
  });

  const send = async (agent: Agent, path: string, body: unknown, headers = {}) =>
    process.request('POST', path, { agent, headers: { Authorization: `Bearer ${ACME.key}`, ...headers }, body });

  /** Seconds for so many orders, each under a key of its own, in as many requests. */
  async function secondsUnderKeys(count: number, prefix: string): Promise<number> {
    const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS });
    const began = performance.now();
    const left = Array.from({ length: count }, (_, n) => `${prefix}-${n}`);
    const worker = async (answers: { status: number }[] = []): Promise<{ status: number }[]> => {
      const key = left.pop();
      if (key === undefined) return answers;
      answers.push(await send(agent, '/v1/orders', newOrder({ externalRef: key }), { 'Idempotency-Key': key }));
      return worker(answers);
    };
    const answers = (await Promise.all(Array.from({ length: SOCKETS }, () => worker()))).flat();
    expect(tally(answers)).toEqual({ 201: count });
    agent.destroy();
    return (performance.now() - began) / 1_000;
  }

  /** Seconds for so many records, in one batch after the other. */
  async function secondsInBatches(count: number, feed: string): Promise<number> {
    const agent = new Agent({ keepAlive: true });
    await send(agent, `/v1/feeds/${feed}/epochs`, undefined);
    const began = performance.now();
    for (let first = 1; first <= count; first += BATCH) {
      const sent = Array.from({ length: Math.min(BATCH, count - first + 1) }, (_, n) =>
        newOrder({ externalRef: `${feed}-${first + n}` }),
      );
      const { json } = await send(agent, `/v1/feeds/${feed}/records`, {
        epoch: 1,
        firstSequence: first,
        records: sent,
      });
      expect(json).toMatchObject({ applied: sent.length });
    }
    agent.destroy();
    return (performance.now() - began) / 1_000;
  }

  it(
    'come many times as fast',
    async () => {
      await secondsUnderKeys(MEASURED / 2, 'warm-key');
      await secondsInBatches(MEASURED * 2, 'warm');
      const inBatches = (10 * MEASURED) / (await secondsInBatches(10 * MEASURED, 'measured'));
      const underKeys = MEASURED / (await secondsUnderKeys(MEASURED, 'measured-key'));
      console.log(
        `${Math.round(inBatches)} records/s in batches of ${BATCH}, one at a time; ` +
          `${Math.round(underKeys)} orders/s under keys, ${SOCKETS} at a time: ${(inBatches / underKeys).toFixed(1)} times`,
      );
      expect(inBatches / underKeys).toBeGreaterThan(2);
    },
    5 * MINUTE,
  );
});
