import type { PoolClient, QueryResult, QueryResultRow } from 'pg';
import type { EntityManager, QueryRunner } from 'typeorm';
import { connect, isLost, release } from './connection.js';
import { DatabaseUnavailableError, OutcomeUnknownError, TransactionAbortedError } from './database.errors.js';
import { failureIn, type Outcome, resultsOf, sendAll, type Statement } from './flush.js';
import { endsSession, sqlStateOf, SqlState } from './sql-state.js';

export type { Statement } from './flush.js';

/** What is sent together with BEGIN, in one flush. */
export interface Opening {
  /** Commands without parameters, in the same message as BEGIN: `SET LOCAL ...`. */
  readonly settings?: string;
  readonly statements?: readonly Statement[];
  /** Runs around taking the connection and waiting for the answers, on every attempt. */
  readonly within?: (begin: () => Promise<Transaction>) => Promise<Transaction>;
}

const ERROR_CLEANUP = new Error('The connection may be inside a broken transaction');

/**
 * One database transaction on one connection. {@link UnitOfWork} opens and ends it; the code in between writes through
 * {@link Transaction.query} (plain SQL) or {@link Transaction.manager} (TypeORM), which share it.
 */
export class Transaction {
  /** What the statements that travelled with BEGIN answered, in their order. */
  opened: readonly QueryResult[] = [];
  /** What the statements that travelled with COMMIT answered, in their order; empty before. */
  closed: readonly QueryResult[] = [];

  private readonly closing: Statement[] = [];
  private readonly listeners = new Set<() => void>();
  private begun: Promise<readonly Outcome[]> = Promise.resolve([]);
  private doomedBy: { readonly cause: unknown } | undefined;
  private joined = { open: 0 };
  private severedBy: unknown;
  private onSevered: (error: Error) => void = () => undefined;
  private discarded = false;
  private ended = false;

  private constructor(
    readonly tenantId: string,
    private readonly runner: QueryRunner,
    private readonly client: PoolClient,
  ) {}

  /**
   * Takes a connection and sends BEGIN without waiting for its answer: it shares the wait of the first statements.
   *
   * @throws DatabaseUnavailableError when no connection is to be had
   */
  static async begin(
    runner: QueryRunner,
    tenantId: string,
    { settings, statements = [] }: Opening,
  ): Promise<Transaction> {
    const client = (await connect(runner)) as PoolClient;
    // TypeORM must know that it is inside a transaction: otherwise `save()` opens one of its own and *commits* ours, and
    // at depth 0 so does `manager.transaction()`, which at depth 1 makes a savepoint.
    Object.assign(runner, { isTransactionActive: true, transactionDepth: 1 });
    const transaction = new Transaction(tenantId, runner, client);
    const sent = transaction.send([{ text: settings ? `BEGIN; ${settings}` : 'BEGIN' }, ...statements]);
    transaction.begun = sent;
    if (statements.length > 0) {
      try {
        transaction.opened = resultsOf(await sent).slice(1);
      } catch (error) {
        throw await transaction.abandon(error);
      }
    }
    return transaction;
  }

  /** TypeORM's manager on this transaction. */
  get manager(): EntityManager {
    return this.runner.manager;
  }

  /** Runs one statement and gives its rows. */
  async query<Row extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const [result] = await this.flush<Row>([{ text, values }]);
    return result!.rows;
  }

  /** Sends statements together and waits once for all of them. The first failure is thrown. */
  async flush<Row extends QueryResultRow>(statements: readonly Statement[]): Promise<QueryResult<Row>[]> {
    this.refuseEnded();
    const { joined } = this;
    joined.open++;
    try {
      return resultsOf(await this.send(statements)) as QueryResult<Row>[];
    } finally {
      joined.open--;
    }
  }

  /** Lets a statement travel in the flush of COMMIT, before it: for writes whose answer nothing waits for. */
  closeWith(statement: Statement): void {
    this.refuseEnded();
    this.closing.push(written(statement));
  }

  /** Like {@link closeWith}, for the very last statement: from now on nothing may be added. */
  sealWith(statement: Statement): void {
    this.closeWith(statement);
    this.ended = true;
  }

  /**
   * Runs a piece of the work that belongs to this transaction. When it throws, the rest must not be committed without
   * it, whoever catches the error; and while it runs, nothing is committed at all.
   */
  async join<T>(work: () => Promise<T>): Promise<T> {
    this.refuseEnded();
    const { joined } = this;
    joined.open++;
    try {
      return await work();
    } catch (error) {
      if (joined === this.joined) this.doomedBy ??= { cause: error };
      throw error;
    } finally {
      joined.open--;
    }
  }

  /**
   * Waits for the work, unless the connection is lost meanwhile: then nothing that it still does can count, and whoever
   * waits for it need not wait until it notices.
   */
  async unlessSevered<T>(work: Promise<T>): Promise<T> {
    const severed = new Promise<never>((_, reject) => (this.onSevered = reject));
    this.client.once('error', this.onSevered);
    return Promise.race([work, severed]);
  }

  /** Ends the transaction with a rollback that nobody waits for, without an error: there was nothing to write. */
  discard(): void {
    this.discarded = true;
  }

  /** Calls `listener` once the transaction is committed; several times for one listener are once. */
  onCommitted(listener: () => void): void {
    this.listeners.add(listener);
  }

  /** Undoes what was written since `savepoint`, in the same flush as what follows; the transaction is whole again. */
  rollbackTo(savepoint: string): void {
    this.doomedBy = undefined;
    this.joined = { open: 0 }; // what still runs of it can write no more: its writes so far are undone
    this.closing.length = 0;
    this.closing.push({ text: `ROLLBACK TO SAVEPOINT ${savepoint}` });
  }

  /**
   * Commits, and looks at what COMMIT answered: on an aborted transaction Postgres answers ROLLBACK without an error.
   *
   * @throws OutcomeUnknownError when the connection was lost after COMMIT was sent
   * @throws TransactionAbortedError when the transaction could not be committed as a whole
   */
  async commit(): Promise<void> {
    if (this.discarded) {
      void this.abandon();
      return;
    }
    this.ended = true;
    if (this.doomedBy) {
      const { cause } = this.doomedBy;
      throw await this.abandon(new TransactionAbortedError('a piece of the work failed', cause));
    }
    if (this.joined.open > 0) {
      throw await this.abandon(new TransactionAbortedError('a piece of the work was not waited for'));
    }
    const unbegun = failureIn(await this.begun);
    if (unbegun) throw await this.abandon(unbegun.error);
    if (isLost(this.runner, this.severedBy)) throw await this.abandon(this.severedBy); // COMMIT was never sent
    const outcomes = await this.send([...this.closing, { text: 'COMMIT' }]);
    const commit = outcomes.at(-1)!;
    const failed = failureIn(outcomes);
    if (isLost(this.runner, commit.error)) {
      const cause = failed?.error;
      await this.release(cause ?? ERROR_CLEANUP);
      throw new OutcomeUnknownError(cause);
    }
    await this.release();
    if (commit.result?.command !== 'COMMIT') {
      throw failed && sqlStateOf(failed.error) !== SqlState.inFailedTransaction
        ? failed.error
        : new TransactionAbortedError('a statement had failed inside it', failed?.error);
    }
    this.closed = resultsOf(outcomes).slice(0, -1);
    for (const listener of this.listeners) listener();
  }

  /** Rolls back. What `error` says is kept, unless it only hides that the connection is gone. */
  async abandon(error?: unknown): Promise<unknown> {
    if (isLost(this.runner, error)) {
      await this.release(error ?? ERROR_CLEANUP);
      return error instanceof DatabaseUnavailableError ? error : new DatabaseUnavailableError(error);
    }
    this.ended = true;
    const [rolledBack] = await this.send([{ text: 'ROLLBACK' }]);
    await this.release(rolledBack!.error);
    return error;
  }

  private refuseEnded(): void {
    if (this.ended) throw new Error('The transaction has ended: something was not awaited inside its unit of work');
  }

  /** Never fails: a failure that is looked at only later must not count as unhandled meanwhile. */
  private async send(statements: readonly Statement[]): Promise<readonly Outcome[]> {
    const outcomes = await sendAll(this.client, statements);
    this.severedBy ??= outcomes.find(({ error }) => endsSession(error))?.error;
    return outcomes;
  }

  private async release(broken?: unknown): Promise<void> {
    this.ended = true;
    this.client.removeListener('error', this.onSevered);
    Object.assign(this.runner, { isTransactionActive: false, transactionDepth: 0 });
    await release(this.runner, broken);
  }
}

/**
 * A statement whose values are text already where they were objects. What cannot be written must fail here: later, `pg`
 * would leave out that statement alone, and COMMIT, which is on its way behind it, would commit the rest.
 */
function written({ text, values }: Statement): Statement {
  const isPlain = (value: unknown) => value?.constructor === Object;
  return values ? { text, values: values.map((value) => (isPlain(value) ? JSON.stringify(value) : value)) } : { text };
}
