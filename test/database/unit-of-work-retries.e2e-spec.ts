import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Transaction } from '../../src/database/transaction.js';
import { UnitOfWork } from '../../src/database/unit-of-work.js';
import { ACME, TestApp } from '../support/test-app.js';
import { Gate } from './gate.js';

const tenant = ACME.tenantId;

let service: TestApp;
let unitOfWork: UnitOfWork;
beforeAll(async () => {
  service = await TestApp.start();
  unitOfWork = service.app.get(UnitOfWork);
  await service.database.query('CREATE TABLE notes (tenant_id uuid NOT NULL, text text NOT NULL UNIQUE, value int)');
});
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const note = (transaction: Transaction, text: string) =>
  transaction.query('INSERT INTO notes (tenant_id, text) VALUES ($1, $2)', [transaction.tenantId, text]);
const fail = (transaction: Transaction, code: string) =>
  transaction.query(`DO $$ BEGIN RAISE EXCEPTION 'made up' USING ERRCODE = '${code}'; END $$`);
const raise = (transaction: Transaction, text: string) =>
  transaction.query('UPDATE notes SET value = value + 1 WHERE tenant_id = $1 AND text = $2', [tenant, text]);

async function notes(): Promise<Record<string, number | null>> {
  const rows = await service.database.query<{ text: string; value: number | null }>('SELECT text, value FROM notes');
  return Object.fromEntries(rows.map(({ text, value }) => [text, value]));
}

describe('a conflict between transactions', () => {
  it.each(['40001', '40P01'])('%s: the work runs again, in a new transaction', async (code) => {
    const transactions: string[] = [];
    const result = await unitOfWork.run(tenant, async (transaction) => {
      const [row] = await transaction.query<{ id: string }>('SELECT pg_current_xact_id()::text AS id');
      await note(transaction, `attempt ${transactions.push(row!.id)}`);
      if (transactions.length < 3) await fail(transaction, code);
      return 'done';
    });

    expect(result).toBe('done');
    expect(new Set(transactions).size).toBe(3);
    expect(await notes()).toEqual({ 'attempt 3': null });
  });

  it('that never ends is given up, and thrown', async () => {
    let attempts = 0;
    const working = unitOfWork.run(tenant, async (transaction) => {
      attempts++;
      await note(transaction, 'a');
      await fail(transaction, '40001');
    });

    await expect(working).rejects.toMatchObject({ code: '40001' });
    expect(attempts).toBeGreaterThan(1);
    expect(attempts).toBeLessThan(10);
    expect(await notes()).toEqual({});
  });

  it('inside of joined work starts the outermost again', async () => {
    const attempts = { outer: 0, inner: 0 };
    await unitOfWork.run(tenant, async (outer) => {
      await note(outer, `outer ${++attempts.outer}`);
      await unitOfWork.run(tenant, async (inner) => {
        await note(inner, `inner ${++attempts.inner}`);
        if (attempts.inner === 1) await fail(inner, '40001');
      });
    });

    expect(attempts).toEqual({ outer: 2, inner: 2 });
    expect(await notes()).toEqual({ 'outer 2': null, 'inner 2': null });
  });

  it('of another kind is not tried again', async () => {
    let attempts = 0;
    const working = unitOfWork.run(tenant, async (transaction) => {
      attempts++;
      await fail(transaction, '23514');
    });

    await expect(working).rejects.toMatchObject({ code: '23514' });
    expect(attempts).toBe(1);
  });

  it('two units of work in a real deadlock both come through', async () => {
    await service.database.query(`INSERT INTO notes VALUES ($1, 'a', 0), ($1, 'b', 0)`, [tenant]);
    const meeting = new Gate();
    let attempts = 0;
    const crossing = (first: string, second: string) =>
      unitOfWork.run(tenant, async (transaction) => {
        await raise(transaction, first);
        if (++attempts === 2) meeting.open();
        await meeting.opened; // each holds its first row before either asks for its second
        await raise(transaction, second);
      });
    await Promise.all([crossing('a', 'b'), crossing('b', 'a')]);

    expect(attempts).toBe(3);
    expect(await notes()).toEqual({ a: 2, b: 2 });
  });

  it('that shows only at COMMIT is tried again as well', async () => {
    await service.database.query(`INSERT INTO notes VALUES ($1, 'a', 0), ($1, 'b', 0)`, [tenant]);
    const meeting = new Gate();
    let attempts = 0;
    // Each reads both rows and writes one of them from the sum: serializable, one must see what the other wrote.
    const skew = (own: string) =>
      unitOfWork.run(
        tenant,
        async (transaction) => {
          const [row] = await transaction.query<{ sum: number }>('SELECT sum(value)::int AS sum FROM notes');
          await transaction.query('UPDATE notes SET value = $1 WHERE text = $2', [row!.sum + 1, own]);
          if (++attempts === 2) meeting.open();
          await meeting.opened;
        },
        () => ({ settings: 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE' }),
      );
    await Promise.all([skew('a'), skew('b')]);

    expect(attempts).toBe(3);
    expect(Object.values(await notes()).sort()).toEqual([1, 2]);
  });
});
