import { setTimeout as sleep } from 'node:timers/promises';
import { type Client } from 'pg';
import { createCluster, openDirectory, readPassword, resolveCluster, SUPERUSER } from './embedded-postgres/cluster.js';
import {
  EmbeddedPostgresError,
  WAY_OUT,
  codeOf,
  findAccount,
  findPackage,
  install,
} from './embedded-postgres/installation.js';
import { attach, ensureDatabase, launchOrAttach, stopPostmaster } from './embedded-postgres/server.js';

export { EmbeddedPostgresError } from './embedded-postgres/installation.js';

/** A Postgres of our own that runs beside the service and keeps its data. */
export interface EmbeddedPostgres {
  /** `postgres://user:password@127.0.0.1:port/app`; the user is a superuser. */
  readonly url: string;
  /** Where the data and the log lie. */
  readonly directory: string;
  /** True when the server was running already, left over by an owner that was killed. */
  readonly adopted: boolean;
  /**
   * Stops the server and returns when it is gone, after 15 s at most; connections still open are cut. May be called again.
   *
   * @throws EmbeddedPostgresError when the server does not stop
   */
  stop(): Promise<void>;
}

export interface EmbeddedPostgresOptions {
  /** Used as it is (relative to the working directory); undefined: a folder that belongs to this checkout. */
  directory?: string;
  /** Postgres settings, such as `{ fsync: 'off' }` for a throwaway one. They do not reach a server that is adopted. */
  parameters?: Record<string, string>;
}

const DATABASE = 'app';
const START_TIMEOUT_MS = 30_000;
const POLL_MS = 20;
/** Any number will do, as long as it is always the same one. */
const OWNER_LOCK = 5_307_110_418;
/** How long the lock of an owner that was killed a moment ago may still be held: its backend has to notice first. */
const OWNER_GRACE_MS = 1_000;
const RECLAIM_MS = 250;

/**
 * Starts the Postgres of the directory, makes it there first where there is none, or takes over one whose owner is
 * gone. This process then owns it until it ends or calls `stop`. Nothing is hooked to signals or to the process' end:
 * a server that nobody stops goes on, and the next start takes it over.
 *
 * @throws EmbeddedPostgresError when another process owns it (the message gives the `DATABASE_URL` to use), when the
 * binaries are not installed, when the directory is closed, in other use or of another major version, or when Postgres
 * is not ready after 30 s
 * @example
 * const postgres = await startEmbeddedPostgres({ directory: settings.embeddedDatabaseDir });
 * try {
 *   await serve(postgres.url);
 * } finally {
 *   await postgres.stop();
 * }
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> {
  const { parameters = {} } = options;
  return explained(options, async () => {
    const account = await findAccount();
    const binaries = await findPackage();
    const cluster = await resolveCluster(options.directory, account);
    await openDirectory(cluster, account, binaries.majorVersion);
    const installation = await install(binaries, account, cluster.directory);
    await createCluster(cluster, installation, parameters.fsync !== 'off');
    const password = (await readPassword(cluster)) ?? '';

    const deadline = performance.now() + START_TIMEOUT_MS;
    const { postmaster, client, adopted } = await launchOrAttach(cluster, installation, password, parameters, deadline);
    const url = databaseUrl(password, postmaster.port);
    // Before the lock: a process that is refused is told a URL that works.
    await ensureDatabase(client, DATABASE);
    const ownership = await Ownership.claim(client, async () => {
      const running = await attach(cluster, password, performance.now());
      if (running?.postmaster.pid === postmaster.pid) return running.client;
      await running?.client.end();
      return undefined;
    });
    if (!ownership) {
      await client.end();
      throw new EmbeddedPostgresError(
        `Another process already runs on the embedded Postgres in ${cluster.directory}. To use the same database beside ` +
          `it, set DATABASE_URL=${url}; for another database, set EMBEDDED_DATABASE_DIR to another folder.`,
      );
    }
    const stop = async () => {
      try {
        if (!ownership.isLost) await stopPostmaster(postmaster, cluster, installation);
      } finally {
        // Only now: given up earlier, the lock could go to a process that starts, on a server about to end.
        ownership.release();
      }
    };
    let stopped: Promise<void> | undefined;
    return { url, directory: cluster.directory, adopted, stop: () => (stopped ??= stop()) };
  });
}

/**
 * The URL of the server that runs on the directory, whoever owns it; one that is just starting is waited for. For
 * command-line tools beside a running service.
 *
 * @returns undefined when none runs
 * @throws EmbeddedPostgresError when one runs that cannot be used, or the directory is closed to this user
 */
export async function findEmbeddedPostgres(options: EmbeddedPostgresOptions = {}): Promise<string | undefined> {
  return explained(options, async () => {
    const cluster = await resolveCluster(options.directory, await findAccount());
    const password = await readPassword(cluster);
    if (password === undefined) return undefined;
    const running = await attach(cluster, password, performance.now() + START_TIMEOUT_MS);
    if (!running) return undefined;
    try {
      // Its owner may have come no further than to start it.
      await ensureDatabase(running.client, DATABASE);
    } finally {
      await running.client.end();
    }
    return databaseUrl(password, running.postmaster.port);
  });
}

function databaseUrl(password: string, port: number): string {
  return `postgres://${SUPERUSER}:${encodeURIComponent(password)}@127.0.0.1:${port}/${DATABASE}`;
}

/**
 * That this process owns the server: an advisory lock which Postgres gives up by itself when the process is gone,
 * however it went. It is held in the database `postgres`, so that `app` can be dropped or serve as a template.
 */
class Ownership {
  private ended = false;
  private lost = false;

  private constructor(
    private client: Client,
    private readonly reconnect: () => Promise<Client | undefined>,
  ) {
    this.watch();
  }

  /**
   * @param reconnect gives a new connection to the same server, undefined once that server is gone
   * @returns undefined when another process is the owner
   */
  static async claim(client: Client, reconnect: () => Promise<Client | undefined>): Promise<Ownership | undefined> {
    for (const deadline = performance.now() + OWNER_GRACE_MS; ; await sleep(POLL_MS)) {
      if (await tryLock(client)) return new Ownership(client, reconnect);
      if (performance.now() > deadline) return undefined;
    }
  }

  /** True once another process has become the owner, after a crash inside Postgres had cost us our connection. */
  get isLost(): boolean {
    return this.lost;
  }

  /** Gives the lock up. */
  release(): void {
    this.ended = true;
    void this.client.end().catch(() => undefined);
  }

  private watch(): void {
    // The lock must not hold a process that has nothing else to do.
    (this.client as Client & { unref(): void }).unref();
    this.client.once('end', () => this.reclaimLater());
  }

  /** Postgres survives the crash of a backend but drops all connections, and our lock with ours. */
  private reclaimLater(): void {
    if (this.ended) return;
    setTimeout(() => void this.reclaim().catch(() => this.reclaimLater()), RECLAIM_MS).unref();
  }

  private async reclaim(): Promise<void> {
    const client = this.ended ? undefined : await this.reconnect();
    if (!client) return;
    this.lost = !(await tryLock(client));
    if (this.lost || this.ended) {
      await client.end();
      return;
    }
    this.client = client;
    this.watch();
  }
}

async function tryLock(client: Client): Promise<boolean> {
  const { rows } = await client.query<{ held: boolean }>('SELECT pg_try_advisory_lock($1) AS held', [OWNER_LOCK]);
  return rows[0]?.held === true;
}

/** What the operating system refuses arrives with the way out, too. */
async function explained<T>({ directory }: EmbeddedPostgresOptions, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof EmbeddedPostgresError) throw error;
    const { message } = error as Error;
    const closed = ['EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR'].includes(codeOf(error) ?? '');
    const advice = closed
      ? `Set EMBEDDED_DATABASE_DIR to a folder that user ${process.getuid?.() ?? 'of this process'} can write. `
      : '';
    throw new EmbeddedPostgresError(
      `The embedded Postgres${directory ? ` in ${directory}` : ''} cannot be used: ${message}. ${advice}${WAY_OUT}`,
      { cause: error },
    );
  }
}
