import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, chmod, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Client } from 'pg';
import {
  type EmbeddedPostgres,
  EmbeddedPostgresError,
  findEmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/database/embedded-postgres.js';

/** Child processes need compiled code; `npm test` builds first. */
const BUILT = pathToFileURL(join(process.cwd(), 'dist/src/database/embedded-postgres.js')).href;

const OWNER = `
  import { startEmbeddedPostgres } from ${JSON.stringify(BUILT)};
  try {
    const { url, adopted } = await startEmbeddedPostgres(JSON.parse(process.argv[1]));
    console.log(JSON.stringify({ url, adopted }));
    setInterval(() => undefined, 60_000);
  } catch (error) {
    console.log(JSON.stringify({ name: error.name, message: error.message }));
  }`;

jest.setTimeout(30_000);

const parameters = { fsync: 'off' };
const isRoot = process.getuid?.() === 0;
const NOBODY = 65534;

/** The directory of the tests that need no fresh one: making a cluster is what takes long. */
let shared = '';
const directories: string[] = [];
const servers: EmbeddedPostgres[] = [];
const children: ChildProcess[] = [];

beforeAll(async () => {
  shared = await mkdtemp(join(tmpdir(), 'embedded-postgres-spec-'));
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const server of servers.splice(0)) await server.stop();
  await end(shared);
  for (const directory of directories.splice(0)) {
    await end(directory);
    await rm(directory, { recursive: true, force: true });
  }
});

afterAll(async () => {
  await rm(shared, { recursive: true, force: true });
});

/** Stops what a child has left running. */
async function end(directory: string): Promise<void> {
  const left = await findEmbeddedPostgres({ directory }).catch(() => undefined);
  if (left) await (await startEmbeddedPostgres({ directory })).stop();
}

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'embedded-postgres-spec-'));
  directories.push(directory);
  return directory;
}

async function start(directory: string, more: Record<string, string> = {}): Promise<EmbeddedPostgres> {
  const server = await startEmbeddedPostgres({ directory, parameters: { ...parameters, ...more } });
  servers.push(server);
  return server;
}

/** Starts in a process of its own; what it says first is its URL or its error. */
async function startInChild(directory: string) {
  const args = ['--input-type=module', '-e', OWNER, JSON.stringify({ directory, parameters })];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  const [said] = (await once(child.stdout, 'data')) as [Buffer];
  return {
    child,
    said: JSON.parse(said.toString()) as { url?: string; adopted?: boolean; name?: string; message?: string },
  };
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client(url);
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function refusal(attempt: Promise<unknown>): Promise<string> {
  const error: unknown = await attempt.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(EmbeddedPostgresError);
  return (error as Error).message;
}

function pidFile(directory: string): string {
  return join(directory, 'data', 'postmaster.pid');
}

async function postmasterPid(directory: string): Promise<number> {
  return parseInt(await readFile(pidFile(directory), 'utf8'), 10);
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(10);
}

describe('the embedded Postgres', () => {
  it('keeps its data, its URL and nobody else’s eyes off its password between starts', async () => {
    const directory = await newDirectory();
    if (isRoot) await chmod(directory, 0o755);
    const below = join(directory, 'made', 'on the way');
    const first = await start(below);
    await query(first.url, 'CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer');
    const pid = await postmasterPid(below);
    await Promise.all([first.stop(), first.stop()]);
    await first.stop();
    expect(await findEmbeddedPostgres({ directory: below })).toBeUndefined();
    await until(() => !isAlive(pid)); // it has let go of everything, and is a zombie until process 1 collects it

    const second = await start(below);
    expect(second).toMatchObject({ url: first.url, directory: below, adopted: false });
    expect(await query(second.url, 'SELECT * FROM kept')).toEqual([{ answer: 42 }]);
    expect(await findEmbeddedPostgres({ directory: below })).toBe(second.url);

    const { password } = new URL(second.url);
    const secrets: string[] = [];
    for (const entry of await readdir(below, { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile() && (await readFile(path, 'utf8')).includes(password)) secrets.push(path);
    }
    expect(secrets).toHaveLength(1);
    expect((await stat(secrets[0] ?? '')).mode & 0o777).toBe(0o600);
  });

  it('is UTF-8, sorts by code point, listens on the loopback only and asks for the password', async () => {
    const { url } = await start(shared, { max_connections: '17' });
    expect(
      await query(
        url,
        `SELECT current_database() AS name, pg_encoding_to_char(encoding) AS encoding, 'Z' < 'a' AS by_code_point,
                current_setting('listen_addresses') AS addresses, current_setting('unix_socket_directories') AS sockets,
                current_setting('max_connections') AS connections
         FROM pg_database WHERE datname = current_database()`,
      ),
    ).toEqual([
      {
        name: 'app',
        encoding: 'UTF8',
        by_code_point: true,
        addresses: '127.0.0.1',
        sockets: '',
        connections: '17',
      },
    ]);
    const guess = new URL(url);
    guess.password = 'postgres';
    await expect(query(guess.href, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' });
  });

  it('refuses a second owner and tells it the URL to use, which works', async () => {
    const directory = shared;
    const owner = await start(directory);
    const { said } = await startInChild(directory);
    expect(said.name).toBe('EmbeddedPostgresError');
    expect(said.message).toContain(`DATABASE_URL=${owner.url};`);
    expect(said.message).toContain(directory);
    expect(await refusal(startEmbeddedPostgres({ directory }))).toBe(said.message);
    expect(await query(owner.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });

  it('is taken over, still running, when its owner was killed', async () => {
    const directory = shared;
    const { child, said } = await startInChild(directory);
    await query(said.url ?? '', 'CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer');
    const pid = await postmasterPid(directory);
    await kill(child);

    const heir = await start(directory);
    expect(heir).toMatchObject({ adopted: true, url: said.url });
    expect(await postmasterPid(directory)).toBe(pid);
    expect(await query(heir.url, 'SELECT * FROM kept')).toEqual([{ answer: 42 }]);
    await heir.stop();
    await until(() => !isAlive(pid));
  });

  it('waits for one that is shutting down, then starts anew', async () => {
    const { child, said } = await startInChild(shared);
    const pid = await postmasterPid(shared);
    const client = new Client(said.url);
    client.on('error', () => undefined);
    await client.connect();
    await kill(child);
    // Smart shutdown: lasts as long as somebody is connected.
    process.kill(pid, 'SIGTERM');
    await until(async () => (await readFile(pidFile(shared), 'utf8')).includes('stopping'));
    const starting = start(shared);
    expect(await Promise.race([starting, sleep(200, 'waiting')])).toBe('waiting');
    await client.end();
    expect(await starting).toMatchObject({ adopted: false, url: said.url });
    expect(await postmasterPid(shared)).not.toBe(pid);
  });

  it('is made once by several that start at the same time; one becomes the owner, the others are told', async () => {
    const directory = await newDirectory();
    const all = (await Promise.all([1, 2, 3].map(() => startInChild(directory)))).map(({ said }) => said);
    const owners = all.filter(({ url }) => url !== undefined);
    expect(owners).toHaveLength(1);
    for (const { message } of all.filter(({ url }) => url === undefined)) {
      expect(message).toContain(`DATABASE_URL=${owners[0]?.url};`);
    }
    expect(await query(owners[0]?.url ?? '', 'SELECT count(*)::int AS n FROM pg_database')).toEqual([{ n: 4 }]);
    expect((await readdir(directory)).sort()).toEqual(['data', 'postgres.log']);
  });

  it('recovers when Postgres itself was killed, while its backends still live', async () => {
    const directory = shared;
    const first = await start(directory, { fsync: 'on' });
    const client = new Client(first.url);
    client.on('error', () => undefined);
    await client.connect();
    await client.query('CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer');
    const pid = await postmasterPid(directory);
    process.kill(pid, 'SIGKILL');
    await until(() => !isAlive(pid));

    const second = await start(directory);
    expect(second.adopted).toBe(false);
    expect(await query(second.url, 'SELECT * FROM kept')).toEqual([{ answer: 42 }]);
    await first.stop();
    expect(await query(second.url, 'SELECT * FROM kept')).toEqual([{ answer: 42 }]);
    await client.end().catch(() => undefined);
  });

  it('stays its owner’s when a crash inside Postgres cuts all connections', async () => {
    const directory = shared;
    const owner = await start(directory);
    const lockHolders = `SELECT l.pid FROM pg_locks l WHERE locktype = 'advisory' AND granted`;
    const [{ pid } = { pid: 0 }] = await query(owner.url, lockHolders);
    process.kill(Number(pid), 'SIGKILL');
    await until(async () => {
      const holders = await query(owner.url, lockHolders).catch(() => []);
      return holders.length === 1 && holders[0]?.pid !== pid;
    });
    expect(await refusal(startEmbeddedPostgres({ directory }))).toContain(owner.url);
  });

  it('starts over a postmaster.pid whose process is gone or is another program now', async () => {
    const directory = shared;
    const first = await start(directory);
    const text = await readFile(pidFile(directory), 'utf8');
    await first.stop();
    const gone = spawn('true');
    await once(gone, 'exit');
    // Run by the user Postgres runs as: another user's process it passes over by itself.
    const other = spawn('sleep', ['60'], isRoot ? { uid: NOBODY } : {});
    children.push(other);
    for (const { pid } of [gone, other]) {
      await writeFile(pidFile(directory), text.replace(/^\d+/, String(pid)));
      expect(await findEmbeddedPostgres({ directory })).toBeUndefined();
      const server = await start(directory);
      expect(server).toMatchObject({ adopted: false, url: first.url });
      await server.stop();
    }
    expect(isAlive(other.pid ?? 0)).toBe(true);
  });

  it('takes another port when its last one is taken', async () => {
    const directory = shared;
    const first = await start(directory);
    await first.stop();
    const squatter = createServer().listen(Number(new URL(first.url).port), '127.0.0.1');
    await once(squatter, 'listening');
    try {
      const second = await start(directory);
      expect(new URL(second.url).port).not.toBe(String((squatter.address() as AddressInfo).port));
      expect(await query(second.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    } finally {
      squatter.close();
    }
  });

  it('shows the end of the log when Postgres does not start', async () => {
    const directory = shared;
    const message = await refusal(start(directory, { shared_buffers: 'plenty' }));
    expect(message).toContain('invalid value for parameter "shared_buffers": "plenty"');
    expect(message).toContain(join(directory, 'postgres.log'));
    await start(directory);
  });

  it('leaves data of another major version as it is', async () => {
    const directory = shared;
    await (await start(directory)).stop();
    const file = join(directory, 'data', 'PG_VERSION');
    const version = await readFile(file, 'utf8');
    await writeFile(file, '12\n');
    const message = await refusal(start(directory));
    expect(message).toContain(`Postgres 12, but the installed binaries are Postgres ${version.trim()}`);
    expect(message).toContain('DATABASE_URL');
    expect(await readFile(file, 'utf8')).toBe('12\n');

    await writeFile(file, version);
    await start(directory);
  });

  it('leaves a folder that holds something else as it is', async () => {
    const directory = await newDirectory();
    if (isRoot) await chmod(directory, 0o755);
    await appendFile(join(directory, 'thesis.txt'), 'years of work');
    expect(await refusal(start(directory))).toContain('is not empty (thesis.txt)');
    expect(await readdir(directory)).toEqual(['thesis.txt']);

    await mkdir(join(directory, 'data'));
    expect(await refusal(start(directory))).toContain('EMBEDDED_DATABASE_DIR');
    expect(await readdir(directory)).toEqual(['data', 'thesis.txt']);
    expect(await readdir(join(directory, 'data'))).toEqual([]);

    expect(await refusal(start(join(directory, 'thesis.txt')))).toContain('EMBEDDED_DATABASE_DIR');
  });

  (isRoot ? it : it.skip)('says which folder is closed to the user Postgres runs as', async () => {
    const closed = await newDirectory();
    await writeFile(join(closed, 'something'), '');
    const message = await refusal(start(join(closed, 'database')));
    expect(message).toContain(`${closed} (mode 700) is closed to \`nobody\``);
    expect(message).toContain('EMBEDDED_DATABASE_DIR');
    expect(await readdir(closed)).toEqual(['something']);
    expect((await stat(closed)).mode & 0o777).toBe(0o700);
  });
});
