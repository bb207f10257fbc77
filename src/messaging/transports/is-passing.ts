import { DatabaseUnavailableError, OutcomeUnknownError } from '../../database/database.errors.js';
import { isPassingFailure } from '../../database/sql-state.js';

/** Says nothing about the event: the database was away. */
export function isPassing(error: unknown): boolean {
  return error instanceof DatabaseUnavailableError || error instanceof OutcomeUnknownError || isPassingFailure(error);
}
