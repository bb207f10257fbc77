import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DirectoryLock } from './directory-lock.js';
import { type DamagedEntry, type Intent, type IntentStore, isIntent } from './intent.js';

export { DirectoryLockedError } from './directory-lock.js';

const STORED = '.intent';
const PARTIAL = '.partial';

/**
 * Keeps each intent in a file of its own, so that a process that was killed goes on with the same keys and bytes. A file
 * is written aside, flushed, renamed, and its directory flushed: it is there whole or not at all, also after a loss of
 * power. Its second line is the SHA-256 of its first: one that was damaged later is told (`list().damaged`), not believed.
 * The files hold the requests as they are sent; they are readable by their owner only.
 *
 * @example
 * const store = await FileIntentStore.open('/var/lib/shop/intents');
 * const client = new OrdersClient({ baseUrl, apiKey, store });
 * for await (const outcome of client.resume()) await note(outcome);
 */
export class FileIntentStore implements IntentStore {
  private constructor(
    /** Where the files are. */
    readonly directory: string,
    private readonly lock: DirectoryLock,
  ) {}

  /**
   * Opens the store and makes its directory where it is missing. Files that a killed process left half written are
   * removed: what they were to hold was never sent.
   *
   * @throws DirectoryLockedError when another process has it open
   */
  static async open(directory: string): Promise<FileIntentStore> {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const lock = await DirectoryLock.take(directory);
    for (const file of await readdir(directory)) {
      if (file.endsWith(PARTIAL)) await rm(join(directory, file), { force: true });
    }
    return new FileIntentStore(directory, lock);
  }

  /** @throws DirectoryLockedError when the lock was lost; whatever the file system says */
  async put(intent: Intent): Promise<void> {
    await this.lock.check();
    const path = this.pathOf(intent.key);
    const text = JSON.stringify(intent);
    const file = await open(path + PARTIAL, 'w', 0o600);
    try {
      await file.writeFile(`${text}\n${digest(text)}\n`);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(path + PARTIAL, path);
    await this.flushDirectory();
  }

  /** @throws Error when it is damaged: sent again under the same key with other bytes, it would be refused at best */
  async get(key: string): Promise<Intent | undefined> {
    const text = await readFile(this.pathOf(key), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    if (text === undefined) return undefined;
    const read = parse(text);
    if (typeof read === 'string') throw new Error(`${this.pathOf(key)} is damaged: ${read}`);
    return read;
  }

  /** @throws DirectoryLockedError when the lock was lost; whatever the file system says */
  async delete(key: string): Promise<void> {
    await this.lock.check();
    await rm(this.pathOf(key), { force: true });
    // Not flushed: an intent that comes back after a loss of power is sent again and gets the same answer.
  }

  async list(): Promise<{ intents: Intent[]; damaged: DamagedEntry[] }> {
    const intents: Intent[] = [];
    const damaged: DamagedEntry[] = [];
    for (const file of (await readdir(this.directory)).sort()) {
      if (!file.endsWith(STORED)) continue;
      const source = join(this.directory, file);
      const read = parse(await readFile(source, 'utf8'));
      if (typeof read === 'string') damaged.push({ source, reason: read });
      else if (this.pathOf(read.key) !== source) damaged.push({ source, reason: 'its name is not that of its key' });
      else intents.push(read);
    }
    intents.sort((a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt));
    return { intents, damaged };
  }

  /** Lets another process have the directory. */
  async close(): Promise<void> {
    await this.lock.release();
  }

  /** Keys may hold what file names must not, and be longer than those may be. */
  private pathOf(key: string): string {
    return join(this.directory, digest(key) + STORED);
  }

  private async flushDirectory(): Promise<void> {
    if (process.platform === 'win32') return; // directories cannot be flushed there
    const directory = await open(this.directory, 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** @returns the intent, or what is wrong */
function parse(text: string): Intent | string {
  const [line = '', sum, ...rest] = text.split('\n');
  if (sum !== digest(line) || rest.join('') !== '') return 'its checksum does not match';
  try {
    const value: unknown = JSON.parse(line);
    return isIntent(value) ? value : 'it holds something else';
  } catch {
    return 'it is not JSON';
  }
}
