import { execFile, spawn } from 'node:child_process';
import { constants, open, readFile, rename, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { type Cluster, SUPERUSER, isSameFolder } from './cluster.js';
import {
  type Installation,
  EmbeddedPostgresError,
  WAY_OUT,
  codeOf,
  describeFailure,
  launchOptions,
  program,
  runProgram,
} from './installation.js';

/** What `postmaster.pid` tells about the server on a data directory. */
export interface Postmaster {
  pid: number;
  /** The data directory as that server names it: another than ours when the file was copied or the folder moved. */
  folder: string;
  port: number;
  ready: boolean;
}

/** A server that answers, with an open connection to its database `postgres`. */
export interface Running {
  postmaster: Postmaster;
  client: Client;
}

const MAINTENANCE_DATABASE = 'postgres';
const POLL_MS = 20;
const LARGE_LOG_BYTES = 16 * 1024 * 1024;
const PORTS_TO_TRY = 5;
/** Empty for an instant while another server starts, and for good after a crash in that instant. */
const EMPTY_LOCKS_TO_SEE = 20;
const PID_FILE = 'postmaster.pid';

/**
 * Connects to the server that runs on the cluster, waiting until one that starts, recovers or shuts down has done so.
 *
 * @param deadline a `performance.now()` time
 * @returns undefined when none runs
 * @throws EmbeddedPostgresError when it does not answer in time, or answers but is not for us
 */
export async function attach(cluster: Cluster, password: string, deadline: number): Promise<Running | undefined> {
  for (;;) {
    const postmaster = await readPostmaster(cluster);
    if (!postmaster || !(await isRunning(postmaster, cluster))) return undefined;
    let reason = 'it is still starting or shutting down';
    if (postmaster.ready) {
      let client: Client | undefined;
      try {
        client = await connect(postmaster.port, password);
        await requireOurData(client, postmaster, cluster);
        return { postmaster, client };
      } catch (error) {
        void client?.end().catch(() => undefined);
        if (error instanceof EmbeddedPostgresError) throw error;
        reason = (error as Error).message;
        if (codeOf(error) === '28P01') {
          throw new EmbeddedPostgresError(
            `The Postgres that runs on ${cluster.data} (process ${postmaster.pid}, port ${postmaster.port}) refuses the ` +
              `password kept there: ${reason}. Set the password of its user ${SUPERUSER} back. ${WAY_OUT}`,
            { cause: error },
          );
        }
      }
    }
    if (performance.now() > deadline) {
      throw new EmbeddedPostgresError(
        `The Postgres that runs on ${cluster.data} (process ${postmaster.pid}) cannot be used yet: ${reason}. Its log is ` +
          `${cluster.log}. Start again when it is done; it is then taken over. ${WAY_OUT}`,
      );
    }
    await sleep(POLL_MS);
  }
}

/**
 * Launches Postgres on the cluster, or attaches to one that runs there already. Starts at the same time are settled by
 * Postgres itself (its lock file and shared memory segment), never by looking first: the loser attaches to the winner's.
 */
export async function launchOrAttach(
  cluster: Cluster,
  installation: Installation,
  password: string,
  parameters: Record<string, string>,
  deadline: number,
): Promise<Running & { adopted: boolean }> {
  let launch: Launch | undefined;
  let port = await lastPort(cluster);
  for (let launches = 0; ;) {
    const running = await attach(cluster, password, deadline);
    if (running) return { ...running, adopted: running.postmaster.pid !== launch?.pid };
    if (!launch) {
      if (port === undefined || !(await isFree(port))) port = await freePort();
      launch = await startPostmaster(cluster, installation, parameters, port);
      launches += 1;
    } else if (launch.failure !== undefined) {
      const log = await launch.readLog();
      const portTaken = /could not create any TCP\/IP sockets/.test(log);
      const lockEmpty = /lock file ".*" is empty/.test(log);
      const busy = /lock file ".*" already exists|pre-existing shared memory block/.test(log);
      const again = busy || (portTaken && launches < PORTS_TO_TRY) || (lockEmpty && launches < EMPTY_LOCKS_TO_SEE);
      if (!again || performance.now() > deadline) {
        throw new EmbeddedPostgresError(
          `Postgres did not start on ${cluster.data}: ${launch.failure}. The end of its log, ${cluster.log}:\n` +
            `${log.trimEnd().split('\n').slice(-15).join('\n')}\n` +
            `${lockEmpty ? `If no Postgres runs there, remove ${join(cluster.data, PID_FILE)} and start again. ` : ''}${WAY_OUT}`,
        );
      }
      if (portTaken) port = undefined;
      launch = undefined;
    } else if (performance.now() > deadline) {
      throw new EmbeddedPostgresError(
        `Postgres on ${cluster.data} was not ready in time; it is still starting (process ${launch.pid}), see ` +
          `${cluster.log}. Start again when it is done; it is then taken over. ${WAY_OUT}`,
      );
    }
    await sleep(POLL_MS);
  }
}

/** Makes the database unless it is there. */
export async function ensureDatabase(client: Client, name: string): Promise<void> {
  const { rowCount } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
  if (rowCount) return;
  await client.query(`CREATE DATABASE ${client.escapeIdentifier(name)}`).catch((error: unknown) => {
    // Another process has made it meanwhile: 42P04 when it was first by much, 23505 when by little.
    if (!['42P04', '23505'].includes(codeOf(error) ?? '')) throw error;
  });
}

/** Ends the server: fast shutdown first, without a checkpoint when that takes too long. Returns when it is gone. */
export async function stopPostmaster(
  postmaster: Postmaster,
  cluster: Cluster,
  installation: Installation,
): Promise<void> {
  for (const { signal, patience } of [
    { signal: 'INT', patience: 10_000 },
    { signal: 'QUIT', patience: 5_000 },
  ]) {
    if (!(await isRunning(postmaster, cluster))) return;
    if (process.platform === 'win32') {
      // Node would kill it instead of signalling it.
      await runProgram(installation, 'pg_ctl', ['kill', signal, String(postmaster.pid)]);
    } else {
      try {
        process.kill(postmaster.pid, `SIG${signal}` as NodeJS.Signals);
      } catch (error) {
        if (codeOf(error) !== 'ESRCH') throw error;
      }
    }
    for (const deadline = performance.now() + patience; performance.now() < deadline; await sleep(POLL_MS)) {
      if (!(await isRunning(postmaster, cluster))) return;
    }
  }
  throw new EmbeddedPostgresError(
    `Postgres on ${cluster.data} (process ${postmaster.pid}) does not stop, see ${cluster.log}.`,
  );
}

interface Launch {
  pid: number | undefined;
  /** Why the process is gone; undefined while it lives. */
  failure: string | undefined;
  /** What was logged since this launch. */
  readLog(): Promise<string>;
}

async function startPostmaster(
  cluster: Cluster,
  installation: Installation,
  parameters: Record<string, string>,
  port: number,
): Promise<Launch> {
  const { size } = await stat(cluster.log).catch(() => ({ size: 0 }));
  if (size > LARGE_LOG_BYTES) await rename(cluster.log, `${cluster.log}.old`);
  const left = await readPostmaster(cluster);
  const isStale = left !== undefined && !(await isRunning(left, cluster));
  const settings = {
    ...parameters,
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    logging_collector: 'off',
  };
  const path = program(installation, 'postgres');
  const options = launchOptions(installation);
  // O_NOFOLLOW: as root this must not write into a file that a link planted in the folder points at.
  const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
  const log = await open(cluster.log, flags, 0o600);
  try {
    const start = (await log.stat()).size;
    const args = ['-D', cluster.data];
    for (const [name, value] of Object.entries(settings)) args.push('-c', `${name}=${value}`);
    const child = spawn(path, args, {
      ...options,
      // A `postmaster.pid` left by a dead server may name a process that now is something else. Postgres takes it for
      // stale when it names its grandparent. Removing the file ourselves could hit that of a server just starting.
      env: { ...options.env, ...(isStale && { PG_GRANDPARENT_PID: String(left.pid) }) },
      // Its own session, so that Ctrl-C in the terminal ends the service and not the database under it.
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    });
    const launch: Launch = {
      pid: child.pid,
      failure: undefined,
      readLog: async () => (await readFile(cluster.log)).subarray(start).toString(),
    };
    child.once('error', (error) => (launch.failure = describeFailure(path, error) ?? error.message));
    child.once('exit', (code, signal) => (launch.failure ??= `it ended with ${signal ?? `code ${code}`}`));
    child.unref();
    return launch;
  } finally {
    await log.close();
  }
}

async function readPostmaster({ data }: Cluster): Promise<Postmaster | undefined> {
  let lines: string[];
  try {
    lines = (await readFile(join(data, PID_FILE), 'utf8')).split('\n');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  const [pid, folder = '', , port, , , , status] = lines;
  // Negative for a single-user Postgres, which nobody can connect to.
  if (!(Number(pid) > 0)) return undefined;
  return { pid: Number(pid), folder, port: Number(port), ready: status?.trim() === 'ready' };
}

/** Whether that process lives and is a postmaster on our data; its number alone may have gone to another program. */
async function isRunning({ pid, folder }: Postmaster, { data }: Cluster): Promise<boolean> {
  if (!isAlive(pid)) return false;
  // Where it cannot be asked for it counts as a postmaster: to take a live server for a dead one is the worse mistake.
  const command = await commandLine(pid).catch(() => (isAlive(pid) ? undefined : ''));
  if (command !== undefined && !command.includes(`/postgres -D ${folder} `)) return false;
  // A copy of a directory whose server was running names the server of the original.
  return (await isSameFolder(folder, data)) !== false;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Another user's process: ours only if this is root without the right to signal it.
    return codeOf(error) === 'EPERM' && process.getuid?.() === 0;
  }
}

/** Empty for a zombie, which is never collected where process 1 does not care; undefined where there is no such thing. */
async function commandLine(pid: number): Promise<string | undefined> {
  if (process.platform === 'win32') return undefined;
  if (process.platform === 'linux') {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ');
  }
  const { stdout } = await promisify(execFile)('ps', ['-ww', '-o', 'command=', '-p', String(pid)]);
  return stdout;
}

async function connect(port: number, password: string): Promise<Client> {
  const client = new Client({
    host: '127.0.0.1',
    port,
    user: SUPERUSER,
    password,
    database: MAINTENANCE_DATABASE,
    ssl: false,
    connectionTimeoutMillis: 5_000,
    application_name: 'embedded-postgres',
  });
  // Without a listener the end of Postgres would end this process too.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

async function requireOurData(client: Client, postmaster: Postmaster, cluster: Cluster): Promise<void> {
  const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory');
  const folder = rows[0]?.data_directory ?? '';
  if (await isSameFolder(folder, cluster.data)) return;
  throw new EmbeddedPostgresError(
    `The Postgres of ${cluster.data} still runs (process ${postmaster.pid}) as that of ${folder}: the folder was moved. ` +
      `End it with kill -INT ${postmaster.pid} and start again. ${WAY_OUT}`,
  );
}

/** The port of the last start, from the command line that Postgres keeps; URLs noted elsewhere stay right. */
async function lastPort({ data }: Cluster): Promise<number | undefined> {
  const command = await readFile(join(data, 'postmaster.opts'), 'utf8').catch(() => '');
  const port = / "port=(\d+)"/.exec(command)?.[1];
  return port ? Number(port) : undefined;
}

async function isFree(port: number): Promise<boolean> {
  return (await listenOnce(port)) !== undefined;
}

async function freePort(): Promise<number> {
  const port = await listenOnce(0);
  if (port === undefined) throw new EmbeddedPostgresError(`No port is free on 127.0.0.1. ${WAY_OUT}`);
  return port;
}

async function listenOnce(port: number): Promise<number | undefined> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' ? address?.port : undefined));
    });
  });
}
