import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { PoolClient, QueryResultRow } from 'pg';
import type { DataSource, EntityManager } from 'typeorm';
import { connect, onConnection } from './connection.js';
import { resultsOf, sendAll, type Statement } from './flush.js';
import { isSerializationConflict } from './sql-state.js';
import { type Opening, Transaction } from './transaction.js';

const ATTEMPTS = 4;
const LONGEST_PAUSE = 40;

/**
 * The one way to the database. Everything a request writes goes through one unit of work, and so stands or falls
 * together; a unit of work belongs to one tenant.
 *
 * @example
 * await unitOfWork.run(tenantId, async (transaction) => {
 *   await transaction.query('UPDATE ...');
 *   await transaction.manager.save(note); // commits nothing by itself
 * });
 */
@Injectable()
export class UnitOfWork {
  private readonly current = new AsyncLocalStorage<Transaction>();

  constructor(private readonly dataSource: DataSource) {}

  /**
   * Runs `work` in one transaction and commits it. Inside another unit of work of the same tenant it joins that one:
   * the outermost commits. When joined work throws, the outer one can no longer commit, whoever catches the error, and
   * neither can it while joined work still runs.
   *
   * `work` runs again, in a new transaction, when the database reports a serialization failure or a deadlock (40001,
   * 40P01): it must have no effect outside of the database.
   *
   * @param opening what travels with BEGIN, asked for anew on each attempt; the answers are in `transaction.opened`
   * @throws DatabaseUnavailableError when nothing was written because the database was not reachable
   * @throws OutcomeUnknownError when the connection was lost at COMMIT
   * @throws TransactionAbortedError when the work swallowed an error, or did not wait for a part of itself
   */
  async run<T>(
    tenantId: string,
    work: (transaction: Transaction) => Promise<T>,
    opening: () => Opening = () => ({}),
  ): Promise<T> {
    const outer = this.current.getStore();
    if (outer) return this.join(outer, tenantId, work);
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.attempt(tenantId, work, opening);
      } catch (error) {
        if (attempt === ATTEMPTS || !isSerializationConflict(error)) throw error;
      }
      await sleep(Math.random() * LONGEST_PAUSE);
    }
  }

  /**
   * Reads outside of a transaction, each statement for itself; inside a unit of work, within it.
   *
   * @throws DatabaseUnavailableError when the database is not reachable
   */
  async read<T>(tenantId: string, work: (manager: EntityManager) => Promise<T>): Promise<T> {
    const outer = this.current.getStore();
    if (outer) return this.join(outer, tenantId, (transaction) => work(transaction.manager));
    return onConnection(this.dataSource, (runner) => work(runner.manager));
  }

  /**
   * Reads by one statement and past TypeORM, which takes longer than the statement; inside a unit of work, within it.
   *
   * @throws DatabaseUnavailableError when the database is not reachable
   */
  async readRows<Row extends QueryResultRow>(tenantId: string, statement: Statement): Promise<Row[]> {
    const outer = this.current.getStore();
    if (outer)
      return this.join(outer, tenantId, (transaction) => transaction.query<Row>(statement.text, statement.values));
    return onConnection(this.dataSource, async (runner) => {
      const outcomes = await sendAll((await connect(runner)) as PoolClient, [statement]);
      return resultsOf(outcomes)[0]!.rows as Row[];
    });
  }

  /**
   * The transaction that the caller runs in.
   *
   * @throws Error outside of a unit of work: writing there would bypass it
   */
  get transaction(): Transaction {
    const transaction = this.current.getStore();
    if (!transaction) throw new Error('There is no unit of work here: call UnitOfWork.run() around this code');
    return transaction;
  }

  private async join<T>(
    outer: Transaction,
    tenantId: string,
    work: (transaction: Transaction) => Promise<T>,
  ): Promise<T> {
    if (outer.tenantId !== tenantId) throw new Error('A unit of work belongs to one tenant');
    return outer.join(() => work(outer));
  }

  private async attempt<T>(
    tenantId: string,
    work: (transaction: Transaction) => Promise<T>,
    opening: () => Opening,
  ): Promise<T> {
    const travelling = opening();
    const begin = () => Transaction.begin(this.dataSource.createQueryRunner(), tenantId, travelling);
    const transaction = await (travelling.within ? travelling.within(begin) : begin());
    let result: T;
    try {
      result = await transaction.unlessSevered(this.current.run(transaction, () => work(transaction)));
    } catch (error) {
      throw await transaction.abandon(error);
    }
    await transaction.commit();
    return result;
  }
}
