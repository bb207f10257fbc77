import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

const PROGRAM = `
import { OrdersClient, RefusedError } from 'idempotent-orders-service/client';
import { FileIntentStore } from 'idempotent-orders-service/client/file-intent-store';

const store = await FileIntentStore.open('./intents');
const client = new OrdersClient({ baseUrl: 'http://127.0.0.1:2', apiKey: 'k', store, maxAttempts: 1 });
const order = await client.createOrder({ currency: 'EUR', items: [{ sku: 'tea', unitAmount: 450 }] }).catch((error) => error);
console.log(order.kind, order instanceof RefusedError, (await store.list()).intents.length);
await store.close();
`;

const TYPED = `
import { type Order, OrdersClient, OutcomeUnknownError } from 'idempotent-orders-service/client';
import { FileIntentStore } from 'idempotent-orders-service/client/file-intent-store';

export async function order(apiKey: string): Promise<Order | 'later'> {
  const store = await FileIntentStore.open('./intents');
  const client = new OrdersClient({ baseUrl: 'http://127.0.0.1:2', apiKey, store });
  for await (const outcome of client.resume()) {
    if (outcome.status === 'succeeded' && outcome.operation === 'payOrder') console.log(outcome.value.declineCode);
  }
  // @ts-expect-error an order needs a currency
  void client.createOrder({ items: [] });
  return client.createOrder({ currency: 'EUR', items: [{ sku: 'tea', unitAmount: 450 }] }).catch((error: unknown) => {
    if (error instanceof OutcomeUnknownError) return 'later';
    throw error;
  });
}
`;

describe("the package's client, in a program outside of it", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'orders-user-'));
    await mkdir(join(folder, 'node_modules/@types'), { recursive: true });
    await symlink(ROOT, join(folder, 'node_modules/idempotent-orders-service'));
    await symlink(join(ROOT, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
    await symlink(join(ROOT, 'node_modules/undici-types'), join(folder, 'node_modules/undici-types'));
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('is imported as an ES module', async () => {
    await writeFile(join(folder, 'program.js'), PROGRAM);
    const { stdout } = await run(process.execPath, ['program.js'], { cwd: folder, env: { PATH: process.env.PATH } });
    expect(stdout).toBe('exhausted false 1\n');
  });

  it('does not give away the rest of the service', async () => {
    await writeFile(join(folder, 'inside.js'), `await import('idempotent-orders-service/dist/src/main.js');`);
    const inside = run(process.execPath, ['inside.js'], { cwd: folder, env: { PATH: process.env.PATH } });
    await expect(inside).rejects.toMatchObject({ stderr: expect.stringContaining('ERR_PACKAGE_PATH_NOT_EXPORTED') });
  });

  it('has its types', async () => {
    await writeFile(join(folder, 'typed.ts'), TYPED);
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
    const compile = run(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), ...options, 'typed.ts'], {
      cwd: folder,
    });
    await compile.catch((error: { stdout?: string }) => Promise.reject(new Error(error.stdout)));
  }, 120_000);
});
