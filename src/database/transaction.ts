import type { PoolClient, QueryResult, QueryResultRow } from 'pg';
import type { EntityManager, QueryRunner } from 'typeorm';
import { DatabaseUnavailableError, OutcomeUnknownError, TransactionAbortedError } from './database.errors.js';
import { endsSession, sqlStateOf, SqlState } from './sql-state.js';

/** One SQL statement with its parameters. Without parameters it may hold several commands, separated by semicolons. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly unknown[];
}

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
  private begun: Promise<unknown> = Promise.resolve();
  private doomedBy: { readonly cause: unknown } | undefined;
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
    const client = await runner.connect().then(
      (connected: unknown) => connected as PoolClient,
      (error: unknown) => {
        throw new DatabaseUnavailableError(error);
      },
    );
    // TypeORM must know that it is inside a transaction: otherwise `save()` opens one of its own and *commits* ours, and
    // at depth 0 so does `manager.transaction()`, which at depth 1 makes a savepoint.
    Object.assign(runner, { isTransactionActive: true, transactionDepth: 1 });
    const transaction = new Transaction(tenantId, runner, client);
    const sent = transaction.send([{ text: settings ? `BEGIN; ${settings}` : 'BEGIN' }, ...statements]);
    transaction.begun = sent[0]!;
    if (statements.length > 0) {
      try {
        transaction.opened = (await settle(sent)).slice(1);
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
    if (this.ended) throw new Error('The transaction has ended: something was not awaited inside its unit of work');
    return (await settle(this.send(statements))) as QueryResult<Row>[];
  }

  /** Lets a statement travel in the flush of COMMIT, before it: for writes whose answer nothing waits for. */
  closeWith(statement: Statement): void {
    this.closing.push(statement);
  }

  /** Ends the transaction with a rollback that nobody waits for, without an error: there was nothing to write. */
  discard(): void {
    this.discarded = true;
  }

  /** Makes COMMIT impossible: a piece of the work failed, so the rest must not be committed without it. */
  doom(cause: unknown): void {
    this.doomedBy ??= { cause };
  }

  /** Undoes what was written since `savepoint`, in the same flush as what follows; the transaction is whole again. */
  rollbackTo(savepoint: string): void {
    this.doomedBy = undefined;
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
    if (this.doomedBy) {
      const { cause } = this.doomedBy;
      throw await this.abandon(new TransactionAbortedError('a piece of the work failed', cause));
    }
    try {
      await this.begun;
    } catch (error) {
      throw await this.abandon(error);
    }
    if (this.isLost) throw await this.abandon();
    const pending = this.send([...this.closing, { text: 'COMMIT' }]);
    this.ended = true;
    const outcomes = await Promise.allSettled(pending);
    const commit = outcomes.at(-1)!;
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (this.isLost || (commit.status === 'rejected' && endsSession(commit.reason))) {
      const cause: unknown = failed?.reason;
      await this.release(cause ?? ERROR_CLEANUP);
      throw new OutcomeUnknownError(cause);
    }
    if (commit.status === 'fulfilled' && commit.value.command === 'COMMIT') {
      await this.release();
      this.closed = outcomes.slice(0, -1).map((outcome) => (outcome as PromiseFulfilledResult<QueryResult>).value);
      return;
    }
    await this.release();
    throw failed && sqlStateOf(failed.reason) !== SqlState.inFailedTransaction
      ? failed.reason
      : new TransactionAbortedError('a statement had failed inside it', failed?.reason);
  }

  /** Rolls back. What `error` says is kept, unless it only hides that the connection is gone. */
  async abandon(error?: unknown): Promise<unknown> {
    if (this.isLost || endsSession(error)) {
      await this.release(error ?? ERROR_CLEANUP);
      return error instanceof DatabaseUnavailableError ? error : new DatabaseUnavailableError(error);
    }
    this.ended = true;
    const [rolledBack] = this.send([{ text: 'ROLLBACK' }]);
    await rolledBack!.then(
      () => this.release(),
      (failure: unknown) => this.release(failure),
    );
    return error;
  }

  /** TypeORM lets go of its connection by itself when the driver reports it dead. */
  private get isLost(): boolean {
    return this.runner.isReleased;
  }

  private send(statements: readonly Statement[]): Promise<QueryResult>[] {
    return statements.map(({ text, values }) => {
      const pending = this.client.query(text, values as unknown[] | undefined);
      pending.catch(() => undefined); // looked at later; a pipelined failure must not count as unhandled meanwhile
      return pending;
    });
  }

  /** A client that broke is destroyed: nobody else may get the rest of this transaction. */
  private async release(broken?: unknown): Promise<void> {
    this.ended = true;
    const internals = this.runner as unknown as {
      isTransactionActive: boolean;
      releasePostgresConnection(error?: unknown): Promise<void>;
    };
    internals.isTransactionActive = false;
    await internals.releasePostgresConnection(broken);
  }
}

/** All results, or the first failure once every statement has been answered. */
async function settle(pending: readonly Promise<QueryResult>[]): Promise<QueryResult[]> {
  const outcomes = await Promise.allSettled(pending);
  return outcomes.map((outcome) => {
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  });
}
