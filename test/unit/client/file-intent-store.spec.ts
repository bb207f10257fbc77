import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { DirectoryLockedError, FileIntentStore } from '../../../src/client/file-intent-store.js';
import type { Intent } from '../../../src/client/index.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { waitFor } from '../../support/wait-for.js';
import { all, created, Harness, inTurn, NEW_ORDER } from './harness.js';

const intent = (key: string, createdAt = '2026-11-30T12:00:00.000Z'): Intent => ({
  key,
  operation: 'createOrder',
  method: 'POST',
  path: '/v1/orders',
  headers: {},
  body: '{"sku":"té\\n\\u2028","n":1.10}',
  createdAt,
});

let directory: string;
let store: FileIntentStore;
const others: ChildProcess[] = [];
beforeEach(async () => {
  directory = join(await mkdtemp(join(tmpdir(), 'intents-')), 'made');
  store = await FileIntentStore.open(directory);
});
afterEach(async () => {
  await store.close();
  for (const other of others.splice(0)) other.kill('SIGKILL');
  await rm(join(directory, '..'), { recursive: true, force: true });
});

const files = async (end: string) => (await readdir(directory)).filter((file) => file.endsWith(end));
const only = async () => join(directory, (await files('.intent'))[0]!);
/** Opens the store as the next process does, after this one is gone. */
async function reopen(): Promise<void> {
  await store.close();
  store = await FileIntentStore.open(directory);
}

describe('what is put', () => {
  it('is there for the next process, as it was', async () => {
    await store.put(intent('key-1'));
    await reopen();
    expect(await store.list()).toEqual({ intents: [intent('key-1')], damaged: [] });
    expect(await store.get('key-1')).toEqual(intent('key-1'));
    expect(await store.get('key-2')).toBeUndefined();
  });

  it('replaces what there was under the key, and goes when it is deleted, twice as well', async () => {
    await store.put(intent('key-1'));
    await store.put({ ...intent('key-1'), expiresAt: '2026-12-01T12:00:00.000Z' });
    expect((await store.list()).intents).toMatchObject([{ expiresAt: '2026-12-01T12:00:00.000Z' }]);
    await store.delete('key-1');
    await store.delete('key-1');
    expect((await store.list()).intents).toEqual([]);
  });

  it('may have any key', async () => {
    const keys = ['../../etc/passwd', '.', 'CON', 'a/b\\c', 'x'.repeat(255)];
    for (const key of keys) await store.put(intent(key));
    expect((await store.list()).intents.map(({ key }) => key).sort()).toEqual([...keys].sort());
    expect(await files('.intent')).toHaveLength(keys.length);
  });

  it('is listed oldest first', async () => {
    for (const hour of [12, 9, 11])
      await store.put(intent(`at-${hour}`, `2026-11-30T${String(hour).padStart(2, '0')}:00:00Z`));
    expect((await store.list()).intents.map(({ key }) => key)).toEqual(['at-9', 'at-11', 'at-12']);
  });

  it('can be read by its owner only', async () => {
    await store.put(intent('key-1'));
    expect((await stat(await only())).mode & 0o777).toBe(0o600);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
  });

  it('is not half there after a kill: what was not renamed was never sent', async () => {
    await store.put(intent('key-1'));
    await writeFile(`${await only()}.partial`, '{"key":"key-1","oper');
    await reopen();
    expect(await files('.partial')).toEqual([]);
    expect((await store.list()).intents).toEqual([intent('key-1')]);
  });
});

describe('what was damaged', () => {
  const damages: [string, (text: string) => string][] = [
    ['cut', (text) => text.slice(0, 50)],
    ['empty', () => ''],
    ['with another body', (text) => text.replace('1.10', '1.11')],
    ['with another key', (text) => text.replace('key-1', 'key-2')],
    ['with more behind it', (text) => `${text}{}`],
    ['something else', () => '{"hello":"world"}\n'],
  ];

  it.each(damages)('is told, and neither sent nor removed: %s', async (_, damage) => {
    await store.put(intent('key-0'));
    await store.put(intent('key-1'));
    const paths = (await files('.intent')).map((file) => join(directory, file));
    const texts = await Promise.all(paths.map((path) => readFile(path, 'utf8')));
    const source = paths[texts.findIndex((text) => text.includes('key-1'))]!;
    await writeFile(source, damage(await readFile(source, 'utf8')));

    await reopen();

    const { intents, damaged } = await store.list();
    expect(intents).toEqual([intent('key-0')]);
    expect(damaged).toEqual([{ source, reason: expect.any(String) }]);
    await expect(store.get('key-1')).rejects.toThrow('damaged');
    expect(await files('.intent')).toHaveLength(2);
  });

  it('is told when it stands under the name of another key', async () => {
    await store.put(intent('key-1'));
    const source = join(directory, `${'0'.repeat(64)}.intent`);
    await rename(await only(), source);
    expect((await store.list()).damaged).toMatchObject([{ source }]);
  });
});

describe('two processes', () => {
  it('have not the same store', async () => {
    await expect(FileIntentStore.open(directory)).rejects.toThrow(DirectoryLockedError);
    await store.close();
    store = await FileIntentStore.open(directory);
  });

  /** The lock file of somebody else. */
  async function lockOf(pid: number | string, host = hostname()): Promise<string> {
    await store.close();
    const path = join(directory, `lock.${encodeURIComponent(host)}.${pid}.0b5e3f0e`);
    await writeFile(path, '');
    return path;
  }

  async function otherProcess(): Promise<number> {
    const other = spawn(process.execPath, ['-e', 'setInterval(() => 0, 1e6); console.log("up")'], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    others.push(other);
    await new Promise((resolve) => other.stdout.once('data', resolve));
    return other.pid!;
  }

  it('have not the same store as long as the one lives', async () => {
    const pid = await otherProcess();
    const path = await lockOf(pid);
    await expect(FileIntentStore.open(directory)).rejects.toThrow(DirectoryLockedError);
    expect(await readdir(directory)).toEqual([path.split('/').at(-1)]); // one that is refused leaves nothing behind

    const gone = new Promise((resolve) => others[0]!.once('exit', resolve));
    others[0]!.kill('SIGKILL');
    await gone;
    store = await FileIntentStore.open(directory);
    expect(await readdir(directory)).not.toContain(path.split('/').at(-1));
  });

  it('with the same process id are told apart: a restarted container', async () => {
    await lockOf(process.pid);
    store = await FileIntentStore.open(directory);
  });

  it('on two machines wait for each other for a minute', async () => {
    const path = await lockOf(1, 'elsewhere.example');
    await expect(FileIntentStore.open(directory)).rejects.toThrow(DirectoryLockedError);
    const before = new Date(Date.now() - 61_000);
    await utimes(path, before, before);
    store = await FileIntentStore.open(directory);
  });

  it('have not the same store when the one has it for long', async () => {
    await store.close();
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'setImmediate', 'setTimeout', 'clearTimeout', 'Date', 'performance'],
    });
    try {
      store = await FileIntentStore.open(directory);
      const lock = join(
        directory,
        (await readdir(directory)).find((file) => file.startsWith('lock.'))!,
      );
      const before = new Date(Date.now() - 3_600_000);
      await utimes(lock, before, before);
      jest.advanceTimersByTime(10_000);
      await waitFor(async () => (await stat(lock)).mtimeMs > before.getTime(), { description: 'a heartbeat' });
      await expect(FileIntentStore.open(directory)).rejects.toThrow(DirectoryLockedError);
    } finally {
      jest.useRealTimers();
    }
  });

  it('that come at once do not both get it', async () => {
    await store.close();
    for (let round = 0; round < 20; round += 1) {
      const opened = await Promise.allSettled([1, 2, 3].map(() => FileIntentStore.open(directory)));
      const got = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
      expect(got.length).toBeLessThanOrEqual(1);
      for (const one of got) await one.close();
    }
    store = await FileIntentStore.open(directory);
  });

  it('do not both write: who lost the lock while it stood still is refused', async () => {
    await store.put(intent('key-1'));
    for (const file of await readdir(directory)) if (file.startsWith('lock.')) await rm(join(directory, file));
    await expect(store.put(intent('key-2'))).rejects.toThrow(DirectoryLockedError);
    await expect(store.delete('key-1')).rejects.toThrow(DirectoryLockedError);
    expect((await store.list()).intents).toHaveLength(1);
  });
});

describe('a client on it', () => {
  let server: ScriptedServer;
  beforeAll(async () => void (server = await ScriptedServer.start()));
  afterAll(() => server.stop());

  it('goes on after a restart with the same key and the same bytes', async () => {
    server.script = (response) => void response.socket?.destroy();
    const first = new Harness(server, { maxAttempts: 1 }, store);
    await first.client.createOrder(NEW_ORDER, { reference: 'basket 7' }).catch(() => undefined);
    await reopen();
    inTurn(server, created);
    const outcomes = await all(new Harness(server, {}, store).client.resume());
    expect(outcomes).toMatchObject([{ status: 'succeeded', intent: { reference: 'basket 7' } }]);
    expect(server.requests[1]!.body).toBe(server.requests[0]!.body);
    expect(first.keys[1]).toBe(first.keys[0]);
    expect((await store.list()).intents).toEqual([]);
  });

  it('sends nothing when the intent cannot be written', async () => {
    server.requests.length = 0;
    await rm(directory, { recursive: true });
    await expect(new Harness(server, {}, store).client.createOrder(NEW_ORDER)).rejects.toThrow();
    expect(server.requests).toEqual([]);
  });
});
