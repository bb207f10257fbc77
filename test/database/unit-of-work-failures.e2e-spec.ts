import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { DatabaseUnavailableError, TransactionAbortedError } from '../../src/database/database.errors.js';
import type { Transaction } from '../../src/database/transaction.js';
import { UnitOfWork } from '../../src/database/unit-of-work.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { ACME, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { Gate } from './gate.js';

const POOL_SIZE = 3;
const tenant = ACME.tenantId;

let database: TestDatabase;
let proxy: PostgresProxy;
let service: TestApp;
let unitOfWork: UnitOfWork;
beforeAll(async () => {
  database = await TestDatabase.create();
  proxy = await PostgresProxy.start(database.url);
  service = await TestApp.start({ DATABASE_POOL_SIZE: `${POOL_SIZE}` }, { database, databaseUrl: proxy.url });
  unitOfWork = service.app.get(UnitOfWork);
  await database.query('CREATE TABLE notes (tenant_id uuid NOT NULL, text text NOT NULL UNIQUE)');
});
afterAll(async () => {
  await service.stop();
  await proxy.stop();
});
beforeEach(() => database.clear());

const note = (transaction: Transaction, text: string) =>
  transaction.query('INSERT INTO notes (tenant_id, text) VALUES ($1, $2)', [transaction.tenantId, text]);
const fail = (transaction: Transaction, code: string) =>
  transaction.query(`DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '${code}'; END $$`);

async function notes(): Promise<string[]> {
  const rows = await database.query<{ text: string }>('SELECT text FROM notes ORDER BY text');
  return rows.map(({ text }) => text);
}

const pidOf = async (transaction: Transaction) =>
  (await transaction.query<{ pid: number }>('SELECT pg_backend_pid() AS pid'))[0]!.pid;

/** Fails unless the pool has all its connections to give, none of them inside a transaction. */
async function expectWholePool(): Promise<void> {
  const meeting = new Gate();
  const pids = new Set<number>();
  const hold = async (transaction: Transaction) => {
    pids.add(await pidOf(transaction));
    if (pids.size === POOL_SIZE) meeting.open();
    await meeting.opened;
  };
  await Promise.all(Array.from({ length: POOL_SIZE }, () => unitOfWork.run(tenant, hold)));
  expect(pids.size).toBe(POOL_SIZE);
  const open = `datname = current_database() AND application_name = 'orders-service' AND state <> 'idle'`;
  await waitFor(async () => (await database.count('pg_stat_activity', open)) === 0, { description: 'an idle pool' });
}

describe('a connection that is lost during the work', () => {
  const terminate = async (pid: number) => {
    await database.query('SELECT pg_terminate_backend($1)', [pid]);
    await waitFor(async () => (await database.count('pg_stat_activity', 'pid = $1', [pid])) === 0, {
      description: 'the backend to end',
    });
  };

  /** Whether the loss is seen before COMMIT is sent is a matter of microseconds; either way a retry finds out. */
  const lostOrUnknown = { name: expect.stringMatching(/^(DatabaseUnavailableError|OutcomeUnknownError)$/) };

  it('between two statements: nothing is written, and the next work has another connection', async () => {
    let lost = 0;
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      await terminate((lost = await pidOf(transaction)));
      await note(transaction, 'b');
    });

    await expect(working).rejects.toBeInstanceOf(DatabaseUnavailableError);
    expect(await notes()).toEqual([]);
    expect(await unitOfWork.run(tenant, pidOf)).not.toBe(lost);
    await expectWholePool();
  });

  it('during a statement: nothing is written, and the next work has another connection', async () => {
    let lost = 0;
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      lost = await pidOf(transaction);
      await Promise.all([transaction.query('SELECT pg_sleep(60)'), terminate(lost)]);
    });

    await expect(working).rejects.toBeInstanceOf(DatabaseUnavailableError);
    expect(await notes()).toEqual([]);
    expect(await unitOfWork.run(tenant, pidOf)).not.toBe(lost);
    await expectWholePool();
  });

  it('while the work waits for nothing: it is not reported as done', async () => {
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      await terminate(await pidOf(transaction));
    });

    await expect(working).rejects.toMatchObject(lostOrUnknown);
    expect(await notes()).toEqual([]);
    await expectWholePool();
  });

  it('and whose loss is swallowed is reported all the same', async () => {
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      await terminate(await pidOf(transaction));
      await note(transaction, 'b').catch(() => undefined);
      return 'done';
    });

    await expect(working).rejects.toMatchObject(lostOrUnknown);
    expect(await notes()).toEqual([]);
  });

  it('during a read outside of a transaction: it is reported, and the pool recovers', async () => {
    const reading = unitOfWork.read(tenant, async (manager) => {
      const [{ pid }] = await manager.query<[{ pid: number }]>('SELECT pg_backend_pid() AS pid');
      await Promise.all([manager.query('SELECT pg_sleep(60)'), terminate(pid)]);
    });

    await expect(reading).rejects.toBeInstanceOf(DatabaseUnavailableError);
    await expectWholePool();
  });
});

describe('a database that cannot be reached', () => {
  it('is reported as such, with nothing written; once it is back, so is the service', async () => {
    proxy.refuse();
    proxy.cutAll();
    try {
      for (let n = 0; n <= POOL_SIZE; n++) {
        const writing = unitOfWork.run(tenant, (transaction) => note(transaction, `lost ${n}`));
        await expect(writing).rejects.toBeInstanceOf(DatabaseUnavailableError);
        const reading = unitOfWork.read(tenant, (manager) => manager.query('SELECT 1'));
        await expect(reading).rejects.toBeInstanceOf(DatabaseUnavailableError);
      }
    } finally {
      proxy.accept();
    }

    await unitOfWork.run(tenant, (transaction) => note(transaction, 'a'));
    expect(await notes()).toEqual(['a']);
    await expectWholePool();
  });

  it('is what an exhausted pool looks like, after a bounded wait', async () => {
    const release = new Gate();
    const holders = Array.from({ length: POOL_SIZE }, (_, n) =>
      unitOfWork.run(tenant, async (transaction) => {
        await note(transaction, `holder ${n}`);
        await release.opened;
      }),
    );
    const [write, look] = await Promise.allSettled([
      unitOfWork.run(tenant, (transaction) => note(transaction, 'late')),
      unitOfWork.read(tenant, (manager) => manager.query('SELECT 1')),
    ]);
    release.open();
    await Promise.all(holders);

    for (const outcome of [write, look] as PromiseRejectedResult[]) {
      expect(outcome.reason).toBeInstanceOf(DatabaseUnavailableError);
    }
    expect(await notes()).toEqual(['holder 0', 'holder 1', 'holder 2']);
    await expectWholePool();
  });
});

describe('a closing statement whose values cannot be written', () => {
  it('fails where it is added, and nothing is committed without it', async () => {
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    const work = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'half of the work');
      transaction.closeWith({
        text: 'INSERT INTO notes (tenant_id, text) VALUES ($1, $2)',
        values: [tenant, circular],
      });
    });

    await expect(work).rejects.toThrow(/circular/);
    expect(await notes()).toEqual([]);
    await expectWholePool();
  });
});

describe('many units of work at once, some of which fail', () => {
  it('commit what succeeded, undo the rest, and leave the pool whole', async () => {
    const attempts = new Map<number, number>();
    const ways: ((transaction: Transaction, n: number) => Promise<unknown>)[] = [
      (transaction, n) => note(transaction, `done ${n}`),
      async (transaction, n) => {
        await note(transaction, `thrown ${n}`);
        throw new Error('no');
      },
      (transaction) => fail(transaction, '23514'),
      async (transaction, n) => {
        await note(transaction, `swallowed ${n}`);
        await fail(transaction, '23514').catch(() => undefined);
      },
      async (transaction, n) => {
        await note(transaction, `nested ${n}`);
        await unitOfWork.run(tenant, () => Promise.reject(new Error('no'))).catch(() => undefined);
      },
      async (transaction, n) => {
        await note(transaction, `retried ${n}`);
        const attempt = (attempts.get(n) ?? 0) + 1;
        attempts.set(n, attempt);
        if (attempt === 1) await fail(transaction, '40001');
      },
      async (transaction) => transaction.closeWith({ text: 'SELECT 1 / 0' }),
      async (transaction) => transaction.discard(),
    ];
    const outcomes = await Promise.allSettled(
      Array.from({ length: 200 }, (_, n) =>
        unitOfWork.run(tenant, (transaction) => ways[n % ways.length]!(transaction, n)),
      ),
    );

    const succeeds = [true, false, false, false, false, true, false, true];
    expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual(
      outcomes.map((_, n) => succeeds[n % ways.length]),
    );
    const aborted = outcomes.filter((_, n) => [3, 4].includes(n % ways.length)) as PromiseRejectedResult[];
    expect(aborted.every(({ reason }) => reason instanceof TransactionAbortedError)).toBe(true);
    expect((await notes()).every((text) => /^(done|retried) /.test(text))).toBe(true);
    expect(await notes()).toHaveLength(50);
    await expectWholePool();
  });
});
