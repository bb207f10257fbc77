import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres } from '../src/database/embedded-postgres.js';
import { NAIVE } from './naive-side.js';
import type { Opened } from './opened.js';
import { SERVICE } from './service-side.js';
import type { SideName } from './side.js';
import { Target } from './target.js';

const SIDES = { service: SERVICE, naive: NAIVE };

/** Thrown when there is no place to play at, for a reason that can be mended. */
export class StageError extends Error {
  override readonly name = 'StageError';
}

/** The machinery: a Postgres, and on it each side that plays a part, in a database of its own. */
export class Stage {
  private readonly logs = new Map<SideName, string>();
  private readonly targets = new Map<SideName, Target>();

  private constructor(
    private readonly opened: Opened,
    private readonly folder: string,
    private readonly serverUrl: string,
    /** Of that Postgres, and whose it is. */
    readonly database: string,
  ) {}

  /** @param databaseUrl of a Postgres server on which databases may be made; undefined: an embedded one, thrown away */
  static async open(databaseUrl: string | undefined, sides: ReadonlySet<SideName>, opened: Opened): Promise<Stage> {
    const folder = await opened.add(
      () => mkdtemp(join(tmpdir(), 'orders-demo-')),
      (path) => rm(path, { recursive: true, force: true }),
    );
    const serverUrl = databaseUrl ?? (await embedded(folder, opened));
    const asking = opened.finish(() => onServer(serverUrl, 'SHOW server_version'));
    const version = await asking.catch((error: NodeJS.ErrnoException) => {
      throw new StageError(`The Postgres in DATABASE_URL cannot be used: ${error.message || error.code}.`);
    });
    const kind = databaseUrl === undefined ? 'embedded' : 'in DATABASE_URL';
    const stage = new Stage(opened, folder, serverUrl, `Postgres ${String(version)}, ${kind}`);
    await Promise.all([...sides].map(async (name) => stage.targets.set(name, await stage.openTarget(name))));
    return stage;
  }

  target(name: SideName): Target {
    return this.targets.get(name)!;
  }

  /** What the processes have printed so far. */
  get log(): string {
    return [...this.logs].map(([name, text]) => `=== ${name}\n${text}`).join('\n');
  }

  private async openTarget(name: SideName): Promise<Target> {
    const databaseUrl = await this.createDatabase(name);
    const log = (text: string): void => void this.logs.set(name, (this.logs.get(name) ?? '') + text);
    return Target.open(SIDES[name], { databaseUrl, folder: this.folder, log }, this.opened);
  }

  private async createDatabase(side: SideName): Promise<string> {
    const name = `demo_${randomBytes(6).toString('hex')}_${side}`;
    await this.opened.add(
      () => onServer(this.serverUrl, `CREATE DATABASE ${name}`),
      () => onServer(this.serverUrl, `DROP DATABASE ${name} WITH (FORCE)`),
    );
    const url = new URL(this.serverUrl);
    url.pathname = `/${name}`;
    return url.href;
  }
}

async function embedded(folder: string, opened: Opened): Promise<string> {
  // As root Postgres runs as somebody else, who must be able to pass through.
  if (process.getuid?.() === 0) await chmod(folder, 0o711);
  const directory = join(folder, 'postgres');
  const server = await opened.add(
    // Processes are killed here, not machines: nothing needs to wait for the disk.
    () => startEmbeddedPostgres({ directory, parameters: { fsync: 'off' } }),
    (postgres) => postgres.stop(),
  );
  return server.url;
}

/** Runs one statement on a connection of its own. @returns the first value of its first row */
async function onServer(url: string, statement: string): Promise<unknown> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<Record<string, unknown>>(statement);
    return Object.values(rows[0] ?? {})[0];
  } finally {
    await client.end();
  }
}
