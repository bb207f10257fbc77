import type { PoolClient } from 'pg';
import type { DataSourceOptions } from 'typeorm';

/** Milliseconds. A default pool has no time limit at all, so that one lost packet can stop a service. */
const CONNECT_TIMEOUT = 5_000;
const STATEMENT_TIMEOUT = 10_000;
const LOCK_TIMEOUT = 5_000;
const IDLE_IN_TRANSACTION_TIMEOUT = 15_000;
const NETWORK_MARGIN = 5_000;

export interface DatabaseOptions {
  readonly url: string;
  readonly poolSize: number;
  /** The longest that a statement may wait by permission of its caller, in milliseconds (IDEMPOTENCY_WAIT). */
  readonly longestWait: number;
}

/**
 * TypeORM's options for this service. Entities come from the modules that own them.
 *
 * The server's own limits are set by a command on each new connection and not as start-up parameters, which PgBouncer
 * refuses. Behind PgBouncer in transaction mode give the role the same limits (`ALTER ROLE ... SET`).
 */
export function dataSourceOptions({ url, poolSize, longestWait }: DatabaseOptions): DataSourceOptions {
  return {
    type: 'postgres',
    url,
    applicationName: 'orders-service',
    poolSize,
    connectTimeoutMS: CONNECT_TIMEOUT,
    installExtensions: false,
    extra: {
      pipeline: true,
      keepAlive: true,
      idleTimeoutMillis: 30_000,
      // The client's own limit notices a connection on which nothing arrives any more; the server's come first.
      query_timeout: Math.max(STATEMENT_TIMEOUT, longestWait) + NETWORK_MARGIN,
      onConnect: (client: PoolClient) => client.query(SESSION_LIMITS),
    },
  };
}

const SESSION_LIMITS = [
  `SET statement_timeout = ${STATEMENT_TIMEOUT}`,
  `SET lock_timeout = ${LOCK_TIMEOUT}`,
  `SET idle_in_transaction_session_timeout = ${IDLE_IN_TRANSACTION_TIMEOUT}`,
].join('; ');

/** Puts the limits of a waiting claim back to what every other statement has. */
export const RESTORE_LIMITS = `SET LOCAL lock_timeout = ${LOCK_TIMEOUT}; SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT}`;
