import { LostRaceError } from './database.errors.js';

/** PostgreSQL error codes this service acts upon (PostgreSQL documentation, appendix A). */
export const SqlState = {
  uniqueViolation: '23505',
  readOnlyTransaction: '25006',
  inFailedTransaction: '25P02',
  serializationFailure: '40001',
  deadlockDetected: '40P01',
  lockNotAvailable: '55P03',
  queryCanceled: '57014',
} as const;

/** The SQLSTATE of an error, whether `pg` threw it or TypeORM wrapped it; `undefined` when it carries none. */
export function sqlStateOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const { code, driverError } = error as { code?: unknown; driverError?: unknown };
  if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)) return code;
  return driverError === undefined ? undefined : sqlStateOf(driverError);
}

/** Failures that a new transaction may survive: this one was the victim of a conflict with another. */
export function isSerializationConflict(error: unknown): boolean {
  const state = sqlStateOf(error);
  return (
    error instanceof LostRaceError || state === SqlState.serializationFailure || state === SqlState.deadlockDetected
  );
}

/**
 * Failures that say nothing about the request: no connection (08), out of resources (53), a timeout or an operator's
 * intervention (55P03, 57), a server that only reads at the moment (25006), a conflict (40).
 */
export function isPassingFailure(error: unknown): boolean {
  if (error instanceof LostRaceError) return true;
  const state = sqlStateOf(error);
  if (state === undefined) return false;
  return (
    ['08', '40', '53', '57'].includes(state.slice(0, 2)) ||
    state === SqlState.lockNotAvailable ||
    state === SqlState.readOnlyTransaction
  );
}

/** Whether a unique constraint or index of that name was violated. On Citus the name has the shard's number behind it. */
export function violatesUnique(error: unknown, constraint: string): boolean {
  if (sqlStateOf(error) !== SqlState.uniqueViolation) return false;
  const { driverError = error } = error as { driverError?: unknown };
  const { constraint: name = '' } = driverError as { constraint?: string };
  return name.startsWith(constraint);
}

/** The server ends the session itself (57P01 shutdown, 57P02 crash, 57P03 starting up, 57P05 idle, 25P03/25P04 timeouts) or 08. */
export function endsSession(error: unknown): boolean {
  const state = sqlStateOf(error);
  return state !== undefined && (state.startsWith('08') || /^(57P0[1-5]|25P0[34])$/.test(state));
}
