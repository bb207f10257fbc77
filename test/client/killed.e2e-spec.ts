import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ScriptedServer } from '../support/scripted-server.js';
import { waitFor } from '../support/wait-for.js';
import { created, NEW_ORDER, ORDER } from '../unit/client/harness.js';

const PROGRAM = fileURLToPath(new URL('client-process.js', import.meta.url));

let server: ScriptedServer;
let folder: string;
const running: ChildProcess[] = [];
beforeAll(async () => void (server = await ScriptedServer.start()));
afterAll(() => server.stop());
beforeEach(async () => {
  server.requests.length = 0;
  folder = await mkdtemp(join(tmpdir(), 'orders-client-'));
  await writeFile(join(folder, 'work'), JSON.stringify([{ reference: 'basket 7', body: NEW_ORDER }]));
});
afterEach(async () => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

function start(): { child: ChildProcess; ended: Promise<{ code: number | null; printed: string }> } {
  const env = { PATH: process.env.PATH, BASE_URL: server.url, FOLDER: folder, WORK: join(folder, 'work') };
  const child = spawn(process.execPath, [PROGRAM], { env, stdio: ['ignore', 'inherit', 'pipe'] });
  running.push(child);
  let printed = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, printed }));
  return { child, ended };
}

async function startAndSend(): Promise<ReturnType<typeof start>> {
  server.script = () => undefined;
  const started = start();
  await waitFor(() => server.requests.length > 0, { description: 'the request to arrive' });
  return started;
}

describe('a client that is killed while it waits for the answer', () => {
  it('sends the same key and bytes after its restart, and gets the one answer', async () => {
    const { child, ended } = await startAndSend();
    child.kill('SIGKILL');
    await ended;
    server.script = created;

    expect(await start().ended).toEqual({ code: 0, printed: '' });

    const [first, second] = server.requests;
    expect(server.requests).toHaveLength(2);
    expect(second!.headers['idempotency-key']).toBe(first!.headers['idempotency-key']);
    expect(second!.body).toBe(first!.body);
    const noted = JSON.parse(await readFile(join(folder, 'outcomes'), 'utf8'));
    expect(noted).toMatchObject({ reference: 'basket 7', status: 'succeeded', id: ORDER.id });
  });
});

describe('a second client on the same store', () => {
  it('does not start while the first lives, and sends nothing', async () => {
    await startAndSend();
    const { code, printed } = await start().ended;
    expect(code).toBe(1);
    expect(printed).toContain('DirectoryLockedError');
    expect(server.requests).toHaveLength(1);
  });
});
