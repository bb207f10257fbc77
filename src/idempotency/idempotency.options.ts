import type { Request } from 'express';

/** What the mechanism needs to know of the service around it. */
export interface IdempotencyOptions {
  /** Whose request it is; asked only on routes under a key, after login. */
  readonly tenantOf: (request: Request) => string;
  /** Milliseconds that an answer is kept after completion. */
  readonly retention: number;
  /** Milliseconds that a duplicate waits for the first request. */
  readonly wait: number;
  /** Milliseconds for which an operation with effects outside of the database is owned without a sign of life. */
  readonly lease: number;
  /** Milliseconds between two runs of the cleanup. */
  readonly cleanupInterval: number;
  /** Connections in the pool; half of them may be inside a claim at a time. */
  readonly poolSize: number;
}

export const IDEMPOTENCY_OPTIONS = Symbol('IDEMPOTENCY_OPTIONS');
