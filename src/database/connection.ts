import type { DataSource, QueryRunner } from 'typeorm';
import { DatabaseUnavailableError } from './database.errors.js';
import { endsSession } from './sql-state.js';

/**
 * Takes a connection from the pool for as long as `work` takes.
 *
 * @throws DatabaseUnavailableError when there is none, or when it is lost meanwhile
 */
export async function onConnection<T>(dataSource: DataSource, work: (runner: QueryRunner) => Promise<T>): Promise<T> {
  const runner = dataSource.createQueryRunner();
  await connect(runner);
  try {
    return await work(runner);
  } catch (error) {
    if (!isLost(runner, error)) throw error;
    await release(runner, error);
    throw new DatabaseUnavailableError(error);
  } finally {
    await release(runner);
  }
}

/** @throws DatabaseUnavailableError when no connection is to be had */
export async function connect(runner: QueryRunner): Promise<unknown> {
  try {
    return await runner.connect();
  } catch (error) {
    throw new DatabaseUnavailableError(error);
  }
}

/** Whether the connection is gone. TypeORM lets go of it by itself when the driver reports that. */
export function isLost(runner: QueryRunner, error?: unknown): boolean {
  return runner.isReleased || endsSession(error);
}

/**
 * Gives a connection back to the pool, once. A broken one is destroyed, so that nobody else gets what is left of it.
 * TypeORM has that in its query runner, but does not show it.
 */
export async function release(runner: QueryRunner, broken?: unknown): Promise<void> {
  await (runner as unknown as { releasePostgresConnection(broken?: unknown): Promise<void> }).releasePostgresConnection(
    broken,
  );
}
