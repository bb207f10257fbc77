import { findEmbeddedPostgres, startEmbeddedPostgres } from './embedded-postgres.js';

/** Which database the service uses. */
export interface DatabaseAddress {
  /** Undefined: the embedded one. */
  readonly url: string | undefined;
  /** Of the embedded one; undefined: the checkout's own. */
  readonly embeddedDirectory: string | undefined;
}

/**
 * Gives a command-line tool the database that the service uses: the one of the settings, the embedded one that is
 * running, or the embedded one started for as long as the work takes.
 */
export async function withDatabase<T>(
  { url, embeddedDirectory }: DatabaseAddress,
  work: (url: string) => Promise<T>,
): Promise<T> {
  const running = url ?? (await findEmbeddedPostgres({ directory: embeddedDirectory }));
  if (running !== undefined) return work(running);
  const embedded = await startEmbeddedPostgres({ directory: embeddedDirectory });
  try {
    return await work(embedded.url);
  } finally {
    await embedded.stop();
  }
}
