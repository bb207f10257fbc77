import { randomUUID } from 'node:crypto';
import { open, readdir, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';

const PREFIX = 'lock.';
const NAME = /^lock\.(.+)\.(\d+)\.([^.]+)$/;
const HEARTBEAT_MS = 10_000;

/** After so long without a heartbeat its owner counts as dead, whatever its process id says: ids are used again. */
const DEAD_AFTER_MS = 60_000;

/** Locks of this process, also those of another copy of this module. */
const HELD_SYMBOL = Symbol.for('idempotent-orders-service/client/held-locks');
const holder = globalThis as unknown as Record<symbol, Set<string> | undefined>;
const held = (holder[HELD_SYMBOL] ??= new Set<string>());

/** Another living process uses the directory, or did within the last minute from another machine. */
export class DirectoryLockedError extends Error {
  override readonly name = 'DirectoryLockedError';
}

/**
 * One process at a time may have a directory. Each writes a lock file of its own *before* it looks for others' and
 * withdraws when a living one is there: of two that come at once, at most one stays. So there is no moment at which a
 * dead owner's lock could be taken over twice. A killed process's lock is void at once on the same machine (its process
 * id is gone), elsewhere a minute after its last heartbeat.
 */
export class DirectoryLock {
  private constructor(
    private readonly path: string,
    private readonly token: string,
    private readonly heartbeat: NodeJS.Timeout,
  ) {}

  /** @throws DirectoryLockedError when another one has it */
  static async take(directory: string): Promise<DirectoryLock> {
    const token = randomUUID();
    const name = `${PREFIX}${encodeURIComponent(hostname())}.${process.pid}.${token}`;
    const path = join(directory, name);
    held.add(token);
    await (await open(path, 'wx', 0o600)).close();
    const now = (await stat(path)).mtimeMs; // by the file system's clock, as the others' heartbeats are
    const others = (await readdir(directory)).filter((file) => file.startsWith(PREFIX) && file !== name);
    for (const other of others) {
      if (await isAlive(join(directory, other), other, now)) {
        held.delete(token);
        await rm(path, { force: true });
        throw new DirectoryLockedError(`${directory} is in use by another process (${other}).`);
      }
      await rm(join(directory, other), { force: true });
    }
    const heartbeat = setInterval(() => void touch(path).catch(() => undefined), HEARTBEAT_MS);
    return new DirectoryLock(path, token, heartbeat.unref());
  }

  /** @throws DirectoryLockedError when it was lost: this process stood still for a minute and another one went on */
  async check(): Promise<void> {
    const there = await stat(this.path).catch(() => undefined);
    if (!there) throw new DirectoryLockedError(`The lock ${this.path} is gone: another process has the directory.`);
  }

  async release(): Promise<void> {
    clearInterval(this.heartbeat);
    held.delete(this.token);
    await rm(this.path, { force: true });
  }
}

/** Writes, so that the time of change is by the file system's clock and not by this machine's; makes no new file. */
async function touch(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.write('.', 0);
  } finally {
    await file.close();
  }
}

async function isAlive(path: string, name: string, now: number): Promise<boolean> {
  const there = await stat(path).catch(() => undefined);
  if (!there) return false; // withdrawn or released meanwhile
  const [, host, pid, token = ''] = NAME.exec(name) ?? [];
  if (now - there.mtimeMs > DEAD_AFTER_MS) return false;
  if (host !== encodeURIComponent(hostname())) return true;
  // A restarted container has the same process id as the one before: only the token tells.
  if (Number(pid) === process.pid) return held.has(token);
  try {
    process.kill(Number(pid), 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'; // somebody else's, and so alive
  }
}
