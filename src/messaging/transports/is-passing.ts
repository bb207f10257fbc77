import { DatabaseUnavailableError, OutcomeUnknownError } from '../../database/database.errors.js';
import { isPassingFailure, sqlStateOf } from '../../database/sql-state.js';

/**
 * Says nothing about the event: the database was away. A conflict, or a time limit that this consumer has run into (40,
 * 55P03, 57014), counts as an attempt: if it came again each time, this event would hold up all the others.
 */
export function isPassing(error: unknown): boolean {
  if (error instanceof DatabaseUnavailableError || error instanceof OutcomeUnknownError) return true;
  return isPassingFailure(error) && !/^(40...|55P03|57014)$/.test(sqlStateOf(error) ?? '40000');
}
