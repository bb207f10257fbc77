import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadSandboxSettings } from '../../src/sandbox/sandbox-settings.js';
import { TestDatabase } from '../support/test-database.js';
import { stripeAt } from '../support/test-sandbox.js';
import { waitFor } from '../support/wait-for.js';
import { card } from './charges.js';

// `npm run sandbox` is this file, built; `npm test` builds first.
const COMMAND = join(process.cwd(), 'dist/src/sandbox/sandbox.command.js');

let database: TestDatabase;
/** Where there is no `.env`. */
let folder: string;
beforeAll(async () => {
  database = await TestDatabase.create();
  folder = await mkdtemp(join(tmpdir(), 'sandbox-command-'));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
  await database.drop();
});

describe('npm run sandbox', () => {
  it('says what to set, serves, and ends in order; killed, it has lost nothing', async () => {
    const charges = [];
    for (const signal of ['SIGKILL', 'SIGTERM', 'SIGINT'] as const) {
      const child = spawn(process.execPath, [COMMAND], {
        env: { PATH: process.env.PATH, SANDBOX_DATABASE_URL: database.url, SANDBOX_PORT: '0' },
        cwd: folder,
      });
      const ended = new Promise((resolve) => child.on('close', (code, by) => resolve(by ?? code)));
      let output = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
      child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
      const url = await waitFor(() => /STRIPE_API_BASE=(http:\S+)\n/.exec(output)?.[1], { timeoutMs: 30_000 });
      expect(output).toContain(`BANK_API_BASE=${url}\n`);
      expect(output).toContain('STRIPE_WEBHOOK_SECRET=whsec_sandbox\n');
      charges.push(await stripeAt(url).paymentIntents.create(card(), { idempotencyKey: 'the same' }));
      child.kill(signal);
      expect(await ended).toBe(signal === 'SIGKILL' ? 'SIGKILL' : 0);
    }

    expect(new Set(charges.map(({ id }) => id)).size).toBe(1);
    expect(await database.count('sandbox.effects')).toBe(1);
    expect(await database.count('sandbox.calls')).toBe(3);
  });

  it('has a database of its own beside the embedded one of the service', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'orders-sandbox-'));
    const child = spawn(process.execPath, [COMMAND], {
      env: { PATH: process.env.PATH, EMBEDDED_DATABASE_DIR: directory, SANDBOX_PORT: '0' },
      cwd: folder,
    });
    const ended = new Promise((resolve) => child.on('close', resolve));
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
    try {
      const url = await waitFor(() => /STRIPE_API_BASE=(http:\S+)\n/.exec(output)?.[1], { timeoutMs: 40_000 });
      expect((await stripeAt(url).paymentIntents.create(card())).status).toBe('succeeded');
      expect(await readdir(directory)).toEqual([]);
      expect(await readdir(`${directory}-sandbox`)).toContain('data');
    } finally {
      child.kill('SIGTERM');
      expect(await ended).toBe(0);
      for (const made of [directory, `${directory}-sandbox`]) await rm(made, { recursive: true, force: true });
    }
  });

  it.each([
    [{ NODE_ENV: 'production' }, 'production'],
    [{ SANDBOX_DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/x' }, 'database'],
    [{ SANDBOX_PORT: 'x', SANDBOX_WEBHOOK_URL: 'y' }, 'SANDBOX_WEBHOOK_URL'],
  ])('says what is wrong and fails: %j', async (environment, expected) => {
    const env = { PATH: process.env.PATH, SANDBOX_DATABASE_URL: database.url, SANDBOX_PORT: '0', ...environment };
    const { code, stderr } = await new Promise<{ code: number; stderr: string }>((resolve) => {
      execFile(process.execPath, [COMMAND], { env, cwd: folder, timeout: 30_000 }, (error, _, text) =>
        resolve({ code: Number(error?.code ?? 0), stderr: text }),
      );
    });

    expect([code, stderr]).toEqual([1, expect.stringContaining(expected)]);
    expect(stderr).not.toMatch(/hunter2|\n\s+at /);
  });
});

describe('the settings of a sandbox alone', () => {
  it('have defaults', () => {
    expect(loadSandboxSettings({ SANDBOX_PORT: '' })).toEqual({
      host: '127.0.0.1',
      port: 4242,
      databaseUrl: undefined,
      embeddedDirectory: undefined,
      webhook: undefined,
    });
    expect(loadSandboxSettings({ SANDBOX_WEBHOOK_URL: 'http://localhost:3000/v1/webhooks/stripe' }).webhook).toEqual({
      url: 'http://localhost:3000/v1/webhooks/stripe',
      secret: 'whsec_sandbox',
    });
  });

  it('are refused with every fault at once', () => {
    const wrong = {
      SANDBOX_PORT: '65536',
      SANDBOX_DATABASE_URL: 'mysql://u:hunter2@x',
      SANDBOX_WEBHOOK_URL: 'ftp://x',
    };
    const load = () => loadSandboxSettings({ ...wrong, NODE_ENV: 'production' });

    expect(load).toThrow(
      expect.objectContaining({
        name: 'SettingsError',
        faults: [
          expect.stringMatching(/^NODE_ENV /),
          expect.stringMatching(/^SANDBOX_PORT /),
          expect.stringMatching(/^SANDBOX_DATABASE_URL /),
          expect.stringMatching(/^SANDBOX_WEBHOOK_URL /),
        ],
      }),
    );
    expect(load).not.toThrow('hunter2');
  });
});
