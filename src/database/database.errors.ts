/** The database could not be reached, or the connection was lost before COMMIT was sent: nothing has happened. */
export class DatabaseUnavailableError extends Error {
  override readonly name = 'DatabaseUnavailableError';

  constructor(cause: unknown) {
    super('The database is not available; nothing was written', { cause });
  }
}

/** The connection was lost after COMMIT was sent and before it was answered: the transaction may or may not stand. */
export class OutcomeUnknownError extends Error {
  override readonly name = 'OutcomeUnknownError';

  constructor(cause: unknown) {
    super('The connection was lost at COMMIT; the outcome is unknown', { cause });
  }
}

/**
 * A concurrent transaction got in between, where no statement could have waited for it. {@link UnitOfWork} begins again:
 * a new transaction sees what that one did.
 */
export class LostRaceError extends Error {
  override readonly name = 'LostRaceError';

  constructor(cause: unknown) {
    super('A concurrent transaction got in between', { cause });
  }
}

/**
 * COMMIT rolled back, or would have committed half of the work: a statement failed inside the transaction and the code
 * went on as if it had not. A fault of the program, never of the request.
 */
export class TransactionAbortedError extends Error {
  override readonly name = 'TransactionAbortedError';

  constructor(detail: string, cause?: unknown) {
    super(`The transaction was rolled back: ${detail}`, { cause });
  }
}
