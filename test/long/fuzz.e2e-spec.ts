import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { caseOf, type FuzzCase } from './fuzz-case.js';
import { FuzzClient, type Outcome } from './fuzz-connection.js';
import { attributed, describeCase, describeOutcome, faultsOf, keepsKey, unknownOrders } from './fuzz-verdict.js';
import { heapMegabytes, openConnections, REPORT_HEAP } from './process-figures.js';

const SEED = Number(process.env.FUZZ_SEED ?? 20_260_101);
/** One case alone, to look at it. */
const ONLY = process.env.FUZZ_ONLY === undefined ? undefined : Number(process.env.FUZZ_ONLY);
/** The number of the first case. */
const FIRST = Number(process.env.FUZZ_FROM ?? 0);
const REQUESTS = process.env.TEST_FULL === '1' ? 20_000 : 2_000;
const SOCKETS = 20;
const SHOWN = 15;
/** MB for what is kept on purpose: which keys and callers were seen lately, and code that was compiled late. */
const REMAINS = 10;
const onLinux = process.platform === 'linux';

/** What the run has seen so far. */
class Tally {
  readonly statuses = new Map<number, number>();
  readonly manners = new Map<string, number>();
  readonly faults: string[] = [];
  readonly keys = new Map<string, { kept: boolean; testCase: FuzzCase; status: number }>();
  requests = 0;
  created = 0;
  unknown = 0;
  unanswered = 0;

  add(testCase: FuzzCase, outcome: Outcome): void {
    this.manners.set(testCase.manner, (this.manners.get(testCase.manner) ?? 0) + 1);
    for (const { status, headers } of outcome.answers) {
      this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
      if (status === 201 && headers['idempotent-replayed'] === undefined) this.created += 1;
    }
    this.unknown += unknownOrders(testCase, outcome);
    this.unanswered += Math.max(0, testCase.requests.length - outcome.answers.length);
    for (const [request, answer] of attributed(testCase, outcome.answers)) {
      if (request.uniqueKey === undefined) continue;
      this.keys.set(request.uniqueKey, { kept: keepsKey(request, answer), testCase, status: answer.status });
    }
    for (const fault of faultsOf(testCase, outcome)) this.faults.push(`${fault}\n  ${describeCase(SEED, testCase)}`);
  }

  get failures(): number {
    return [...this.statuses].filter(([status]) => status >= 500).reduce((sum, [, count]) => sum + count, 0);
  }
}

describe(`${REQUESTS} requests of every kind, seed ${SEED}`, () => {
  const tally = new Tally();
  let database: TestDatabase;
  let service: ServiceProcess;
  let port: number;
  let pid: number;
  let memory: { warm: number; after: number };

  beforeAll(async () => {
    database = await TestDatabase.create();
    service = await ServiceProcess.start({
      DATABASE_URL: database.url,
      SEED_DEMO_TENANTS: 'true',
      RATE_LIMIT: '0',
      LOG_LEVEL: 'error',
      IDEMPOTENCY_WAIT: '200ms',
      NODE_OPTIONS: REPORT_HEAP,
    });
    port = Number(new URL(service.baseUrl).port);
    pid = service.pid;
    const client = new FuzzClient(port);
    await run(client, REQUESTS / 4);
    const warm = await heapMegabytes(service);
    await run(client, REQUESTS);
    client.close();
    memory = { warm, after: await heapMegabytes(service) };
    report();
  }, 400_000);

  afterAll(async () => {
    await ServiceProcess.killAll();
    await database.drop();
  });

  let index = FIRST;
  /** Plays cases until so many requests have been sent since the beginning. */
  const run = async (client: FuzzClient, until: number): Promise<void> => {
    const worker = async (): Promise<void> => {
      while (tally.requests < until) {
        const testCase = caseOf(SEED, ONLY ?? index);
        index += 1;
        tally.requests += ONLY === undefined ? Math.max(1, testCase.requests.length) : REQUESTS;
        const outcome = await client.play(testCase);
        tally.add(testCase, outcome);
        if (ONLY !== undefined) console.log(describeCase(SEED, testCase), describeOutcome(outcome));
      }
    };
    await Promise.all(Array.from({ length: SOCKETS }, worker));
  };

  const report = (): void => {
    const table = (counts: Map<string | number, number>) =>
      [...counts].sort().map(([name, count]) => `${name}: ${count}`).join(', '); // prettier-ignore
    console.log(
      `seed ${SEED}, ${tally.requests} requests (${table(tally.manners)})\nanswers ${table(tally.statuses)}; ` +
        `${tally.unanswered} requests unanswered; 201 executed ${tally.created}, unknown at most ${tally.unknown}\n` +
        `memory in use ${memory.warm} MB after a quarter, ${memory.after} MB at the end`,
    );
  };

  it('are all answered as they should be, each error as a problem document', () => {
    const shown = tally.faults.slice(0, SHOWN).join('\n');
    expect(`${tally.faults.length} faults\n${shown}`).toBe('0 faults\n');
    expect(tally.failures).toBe(0);
  });

  it('leave the process alive, able, and without a word of complaint', async () => {
    const complaints = service.output.split('\n').filter((line) => /error|warning|exception|^ +at /i.test(line));
    expect(complaints).toEqual([]);
    await expect(Promise.race([service.exited, Promise.resolve('alive')])).resolves.toBe('alive');
    const answer = await service.request('POST', '/v1/orders', {
      headers: { Authorization: `Bearer ${ACME.key}`, 'Idempotency-Key': 'afterwards' },
      body: newOrder(),
    });
    expect(answer.status).toBe(201);
    tally.created += 1;
  });

  (onLinux ? it : it.skip)('leave no connection open, and no transaction', async () => {
    await waitFor(async () => (await openConnections(pid, port)) === 0, {
      description: 'the connections of clients that are gone to be closed',
    });
    const inTransaction = `SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE datname = current_database() AND state LIKE 'idle in transaction%'`;
    await waitFor(async () => (await database.query<{ n: number }>(inTransaction))[0]!.n === 0, {
      description: 'the transactions to end',
    });
  });

  it('leave as many orders as were acknowledged, each change with its event', async () => {
    const orders = await database.count('orders');
    expect(orders).toBeGreaterThanOrEqual(tally.created);
    expect(orders).toBeLessThanOrEqual(tally.created + tally.unknown);
    const [row] = await database.query<{ changes: number }>('SELECT sum(version)::int AS changes FROM orders');
    expect(await database.count('outbox')).toBe(row!.changes);
  });

  it('leave a key exactly where an answer was kept under it', async () => {
    const rows = await database.query<{ key: string; status: string }>('SELECT key, status FROM idempotency_keys');
    expect(rows.filter(({ key }) => /bad-/.test(key))).toEqual([]);
    expect(rows.filter(({ status }) => status !== 'completed')).toEqual([]);
    const present = new Set(rows.map(({ key }) => key));
    const wrong = [...tally.keys]
      .filter(([key, { kept }]) => present.has(key) !== kept)
      .map(([key, { kept, testCase, status }]) => {
        const what = kept ? 'has no row' : 'has a row';
        return `key ${key} ${what} though the answer was ${status}\n  ${describeCase(SEED, testCase)}`;
      });
    expect(`${wrong.length} wrong\n${wrong.slice(0, SHOWN).join('\n')}`).toBe('0 wrong\n');
  });

  it('cost no memory that stays', () => {
    expect(memory.after - memory.warm).toBeLessThan(REMAINS);
  });
});
