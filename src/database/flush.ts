import type { Writable } from 'node:stream';
import type { ClientBase, QueryResult } from 'pg';

/** One SQL statement with its parameters. Without parameters it may hold several commands, separated by semicolons. */
export interface Statement {
  readonly text: string;
  readonly values?: readonly unknown[];
}

/** How a statement ended: one of the two. */
export interface Outcome {
  readonly result?: QueryResult;
  readonly error?: Error;
}

/**
 * Sends statements together and waits until each has been answered or has failed. It never fails itself.
 *
 * What this spares is most of what a request costs (docs/performance.md). `pg` makes a system call per statement, and
 * each of them wakes Postgres: held back until all are written, they leave in one. And one promise serves them all.
 */
export function sendAll(client: ClientBase, statements: readonly Statement[]): Promise<readonly Outcome[]> {
  return new Promise((resolve) => {
    const outcomes: Outcome[] = [];
    let unanswered = statements.length;
    if (unanswered === 0) return resolve(outcomes);
    const stream = streamOf(client);
    stream.cork();
    try {
      statements.forEach(({ text, values }, index) => {
        client.query(text, values as unknown[], (error: Error | null, result: QueryResult) => {
          outcomes[index] = error ? { error } : { result };
          if (--unanswered === 0) resolve(outcomes);
        });
      });
    } finally {
      stream.uncork();
    }
  });
}

/** All results, or the first failure. */
export function resultsOf(outcomes: readonly Outcome[]): QueryResult[] {
  const failed = failureIn(outcomes);
  if (failed) {
    Error.captureStackTrace(failed.error); // its own leads to the socket, and not to who sent the statement
    throw failed.error;
  }
  return outcomes.map(({ result }) => result!);
}

/** The first failure. */
export function failureIn(outcomes: readonly Outcome[]): { readonly error: Error } | undefined {
  return outcomes.find((outcome): outcome is { error: Error } => outcome.error !== undefined);
}

/** What `pg` writes to; its types do not show it. */
function streamOf(client: ClientBase): Writable {
  return (client as unknown as { connection: { stream: Writable } }).connection.stream;
}
