import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { TransactionAbortedError } from '../../src/database/database.errors.js';
import type { Transaction } from '../../src/database/transaction.js';
import { UnitOfWork } from '../../src/database/unit-of-work.js';
import { Order } from '../../src/orders/order.entity.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { Gate } from './gate.js';

// Start here to learn how the service writes: everything goes through UnitOfWork, on the service's own pool. The table
// `notes` stands for whatever a feature writes; who looks into it does so on another connection, and sees what is committed.

let service: TestApp;
let unitOfWork: UnitOfWork;
beforeAll(async () => {
  service = await TestApp.start();
  unitOfWork = service.app.get(UnitOfWork);
  await service.database.query('CREATE TABLE notes (tenant_id uuid NOT NULL, text text NOT NULL UNIQUE)');
});
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const tenant = ACME.tenantId;

const note = (transaction: Transaction, text: string) =>
  transaction.query('INSERT INTO notes (tenant_id, text) VALUES ($1, $2)', [transaction.tenantId, text]);

async function notes(): Promise<string[]> {
  const rows = await service.database.query<{ text: string }>('SELECT text FROM notes ORDER BY text');
  return rows.map(({ text }) => text);
}

const transactionId = async (transaction: Transaction) =>
  (await transaction.query<{ id: string }>('SELECT pg_current_xact_id()::text AS id'))[0]!.id;

const order = () => ({
  ...{ tenantId: tenant, id: randomUUID(), externalRef: null, status: 'pending' as const, currency: 'EUR', items: [] },
  ...{ totalAmount: 1, metadata: {}, version: 1, createdAt: new Date(), updatedAt: new Date(), deletedAt: null },
});

describe('a unit of work', () => {
  it('commits everything together, at its end, and gives back what the work returned', async () => {
    const result = await unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      await note(transaction, 'b');
      expect(await notes()).toEqual([]);
      return 'done';
    });

    expect(result).toBe('done');
    expect(await notes()).toEqual(['a', 'b']);
  });

  it('leaves nothing when the work throws, and throws that same error', async () => {
    const refusal = new Error('no');
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      throw refusal;
    });

    await expect(working).rejects.toBe(refusal);
    expect(await notes()).toEqual([]);
  });

  it('leaves nothing when a statement fails, and throws what the database said', async () => {
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      await note(transaction, 'a');
    });

    await expect(working).rejects.toMatchObject({ code: '23505' });
    expect(await notes()).toEqual([]);
  });

  it('reads what it has written, while others do not', async () => {
    await unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      expect(await unitOfWork.read(tenant, (manager) => manager.query('SELECT text FROM notes'))).toEqual([
        { text: 'a' },
      ]);
      expect(await notes()).toEqual([]);
    });
  });

  it('sends statements given to closeWith together with COMMIT', async () => {
    const counted = await unitOfWork.run(tenant, async (transaction) => {
      transaction.closeWith({ text: `INSERT INTO notes VALUES ($1, 'closing')`, values: [tenant] });
      await note(transaction, 'a');
      return (await transaction.query<{ n: number }>('SELECT count(*)::int AS n FROM notes'))[0]!.n;
    });

    expect(counted).toBe(1);
    expect(await notes()).toEqual(['a', 'closing']);
  });

  it('leaves nothing when a statement given to closeWith fails', async () => {
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      transaction.closeWith({ text: `INSERT INTO notes VALUES ($1, 'b')`, values: [tenant] });
      transaction.closeWith({ text: `INSERT INTO notes VALUES ($1, 'a')`, values: [tenant] });
      transaction.closeWith({ text: `INSERT INTO notes VALUES ($1, 'c')`, values: [tenant] });
    });

    await expect(working).rejects.toMatchObject({ code: '23505' });
    expect(await notes()).toEqual([]);
  });
});

describe('a unit of work inside another', () => {
  it('joins it: one transaction, committed by the outermost', async () => {
    await unitOfWork.run(tenant, async (outer) => {
      await note(outer, 'outer');
      await unitOfWork.run(tenant, async (inner) => {
        await note(inner, 'inner');
        expect(await transactionId(inner)).toBe(await transactionId(outer));
        expect(unitOfWork.transaction).toBe(outer);
      });
      expect(await notes()).toEqual([]);
    });

    expect(await notes()).toEqual(['inner', 'outer']);
  });

  it('is undone with the outer one', async () => {
    const working = unitOfWork.run(tenant, async () => {
      await unitOfWork.run(tenant, (inner) => note(inner, 'inner'));
      throw new Error('no');
    });

    await expect(working).rejects.toThrow('no');
    expect(await notes()).toEqual([]);
  });

  it('that fails takes the outer one with it, even when its error is caught', async () => {
    const refusal = new Error('no');
    const working = unitOfWork.run(tenant, async (outer) => {
      await note(outer, 'outer');
      await unitOfWork.run(tenant, () => Promise.reject(refusal)).catch(() => undefined);
      await note(outer, 'afterwards');
    });

    await expect(working).rejects.toBeInstanceOf(TransactionAbortedError);
    await expect(working).rejects.toMatchObject({ cause: refusal });
    expect(await notes()).toEqual([]);
  });

  it('that only reads and fails takes the outer one with it as well', async () => {
    const working = unitOfWork.run(tenant, async (outer) => {
      await note(outer, 'outer');
      await unitOfWork.read(tenant, () => Promise.reject(new Error('no'))).catch(() => undefined);
    });

    await expect(working).rejects.toBeInstanceOf(TransactionAbortedError);
    expect(await notes()).toEqual([]);
  });

  it('must be of the same tenant', async () => {
    const working = unitOfWork.run(tenant, async (outer) => {
      await note(outer, 'outer');
      await unitOfWork.run(GLOBEX.tenantId, (inner) => note(inner, 'inner'));
    });

    await expect(working).rejects.toThrow('A unit of work belongs to one tenant');
    await expect(unitOfWork.run(tenant, () => unitOfWork.read(GLOBEX.tenantId, async () => 1))).rejects.toThrow();
    expect(await notes()).toEqual([]);
  });

  it('is not what two that run beside each other are', async () => {
    const meeting = new Gate();
    let arrived = 0;
    const work = async (transaction: Transaction) => {
      if (++arrived === 2) meeting.open();
      await meeting.opened;
      await note(transaction, `note of ${await transactionId(transaction)}`);
    };
    await Promise.all([unitOfWork.run(tenant, work), unitOfWork.run(tenant, work)]);

    expect(new Set(await notes()).size).toBe(2);
  });
});

describe("TypeORM's manager inside a unit of work", () => {
  it('commits nothing by save()', async () => {
    const working = unitOfWork.run(tenant, async ({ manager }) => {
      await manager.save(Order, order());
      expect(await manager.countBy(Order, { tenantId: tenant })).toBe(1);
      throw new Error('no');
    });

    await expect(working).rejects.toThrow('no');
    expect(await service.database.count('orders')).toBe(0);
  });

  it('commits nothing by a transaction() of its own', async () => {
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      await transaction.manager.transaction(async (nested) => {
        await nested.save(Order, order());
        await nested.transaction((deeper) => deeper.query(`INSERT INTO notes VALUES ($1, 'b')`, [tenant]));
      });
      expect(await notes()).toEqual([]);
      throw new Error('no');
    });

    await expect(working).rejects.toThrow('no');
    expect([await service.database.count('orders'), await notes()]).toEqual([0, []]);
  });

  it('undoes only its own transaction() where that fails and is caught', async () => {
    await unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'kept');
      const nested = transaction.manager.transaction(async (manager) => {
        await manager.query(`INSERT INTO notes VALUES ($1, 'undone')`, [tenant]);
        throw new Error('no');
      });
      await expect(nested).rejects.toThrow('no');
    });

    expect(await notes()).toEqual(['kept']);
  });

  it('shares the transaction with plain SQL, and is committed with it', async () => {
    await unitOfWork.run(tenant, async (transaction) => {
      await transaction.manager.save(Order, order());
      expect((await transaction.query('SELECT id FROM orders WHERE tenant_id = $1', [tenant])).length).toBe(1);
    });

    expect(await service.database.count('orders')).toBe(1);
  });
});

describe('what the code may not do', () => {
  it('swallow a database error: nothing is committed, and the caller is told (K1)', async () => {
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      await note(transaction, 'a').catch(() => undefined);
    });

    await expect(working).rejects.toBeInstanceOf(TransactionAbortedError);
    expect(await notes()).toEqual([]);
  });

  it('swallow a database error of the manager (K1)', async () => {
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      await transaction.manager.query('SELECT 1 / 0').catch(() => undefined);
    });

    await expect(working).rejects.toBeInstanceOf(TransactionAbortedError);
    expect(await notes()).toEqual([]);
  });

  it('ask for the transaction where there is none', async () => {
    expect(() => unitOfWork.transaction).toThrow('There is no unit of work here');
    await unitOfWork.run(tenant, async () => undefined);
    expect(() => unitOfWork.transaction).toThrow('There is no unit of work here');
  });

  it('use a transaction that has ended', async () => {
    const ended = await unitOfWork.run(tenant, async (transaction) => transaction);

    await expect(note(ended, 'late')).rejects.toThrow('The transaction has ended');
    await expect(ended.flush([{ text: 'SELECT 1' }])).rejects.toThrow('The transaction has ended');
    await expect(ended.manager.query('SELECT 1')).rejects.toThrow();
    expect(() => ended.closeWith({ text: 'SELECT 1' })).toThrow('The transaction has ended');
    expect(await notes()).toEqual([]);
  });

  it('leave a piece of the work behind that is not done yet: nothing is committed', async () => {
    const gate = new Gate();
    let piece: Promise<unknown> = Promise.resolve();
    const working = unitOfWork.run(tenant, async (transaction) => {
      await note(transaction, 'a');
      piece = unitOfWork.run(tenant, () => gate.opened);
    });

    await expect(working).rejects.toBeInstanceOf(TransactionAbortedError);
    gate.open();
    await piece;
    expect(await notes()).toEqual([]);
  });

  it('go on after its unit of work without being awaited', async () => {
    const over = new Gate();
    let late: Promise<unknown> = Promise.resolve();
    await unitOfWork.run(tenant, async () => {
      late = over.opened.then(() => unitOfWork.run(tenant, (transaction) => note(transaction, 'late')));
    });
    over.open();

    await expect(late).rejects.toThrow('The transaction has ended');
    expect(await notes()).toEqual([]);
  });
});
