import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Outcome, runBuilt } from '../support/built-command.js';
import { ACME, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { consumerOf } from './consumer-of.js';
import { insertEvent } from './outbox-writer.js';
import { createEffectTables } from './relay-processes.js';

let service: TestApp;
let database: TestDatabase;
/** Versions that the consumer refuses. */
let refused: string[];
beforeAll(async () => {
  database = await TestDatabase.create();
  await createEffectTables(database);
  const consumer = consumerOf(async ({ aggregateversion }) => {
    if (refused.includes(aggregateversion)) throw new Error(`not version ${aggregateversion}`);
  });
  const messaging = { longestPause: 50, firstDelay: 1, attempts: 1 };
  service = await TestApp.start({}, { database, providers: [consumer], messaging });
});
afterAll(() => service.stop());

const aggregateId = randomUUID();
let ids: string[];
/** An aggregate whose first event is dead, with two behind it. */
beforeEach(async () => {
  await database.clear();
  refused = ['1'];
  ids = [randomUUID(), randomUUID(), randomUUID()];
  for (const [n, id] of ids.entries()) await insertEvent(database, ACME.tenantId, { id, aggregateId, version: n + 1 });
  await deadAre(1);
});

const deadAre = (count: number) =>
  waitFor(async () => (await database.count('outbox', 'dead_at IS NOT NULL AND published_at IS NULL')) === count, {
    description: `${count} dead events`,
  });
const effects = async () =>
  (await database.query<{ version: number }>('SELECT version FROM effects ORDER BY seq')).map(({ version }) => version);
const effectsAre = (versions: number[]) =>
  waitFor(async () => JSON.stringify(await effects()) === JSON.stringify(versions), {
    description: `the effects of the versions ${versions.join()}`,
  });

const outbox = (...args: string[]): Promise<Outcome> =>
  runBuilt('outbox.command.js', args, { DATABASE_URL: database.url });

describe('npm run outbox', () => {
  it('lists what is dead, with the reason', async () => {
    const { code, stdout, stderr } = await outbox('list');

    expect([code, stderr]).toEqual([0, '']);
    for (const part of [ids[0], 'order.created', ACME.tenantId, aggregateId, 'version 1', 'attempts 1']) {
      expect(stdout).toContain(part);
    }
    expect(stdout).toMatch(/not version 1/);
    expect(stdout).not.toContain(ids[1]);
  });

  it('retries: it is delivered, and then those behind it', async () => {
    refused = [];
    const { code, stdout } = await outbox('retry', ids[0]!);
    expect([code, stdout]).toEqual([0, `retry: ${ids[0]}\n`]);
    await effectsAre([1, 2, 3]);

    expect((await outbox('list')).stdout).toBe('There is no dead event.\n');
    const again = await outbox('retry', ids[0]!);
    expect([again.code, again.stdout, again.stderr]).toEqual([1, '', `There is no dead event ${ids[0]}.\n`]);
    expect(await effects()).toEqual([1, 2, 3]);
  });

  it('retries what is refused again with a clean record: it is dead again', async () => {
    await outbox('retry', ids[0]!.toUpperCase());
    await waitFor(() => database.count('outbox', 'attempts_finished = 1 AND dead_at IS NOT NULL'), {
      description: 'the next end',
    });
    await deadAre(1);
    expect(await effects()).toEqual([]);
  });

  it('skips: those behind it go on; retried later it comes after them', async () => {
    expect((await outbox('skip', ids[0]!)).code).toBe(0);
    await effectsAre([2, 3]);
    expect((await outbox('list')).stdout).toContain('skipped');

    refused = [];
    expect((await outbox('retry', ids[0]!)).code).toBe(0);
    await effectsAre([2, 3, 1]);
    expect((await outbox('list')).stdout).toBe('There is no dead event.\n');
  });

  it('passes by no dead event when one before it is retried', async () => {
    refused = ['1', '2'];
    await outbox('skip', ids[0]!);
    await deadAre(1); // now the second
    refused = ['2'];
    await outbox('retry', ids[0]!);
    await effectsAre([1]);

    await waitFor(async () => (await database.count('outbox', 'published_at IS NULL')) === 2, {
      description: 'the first to be marked',
    });
    expect(await database.count('outbox', 'id = $1 AND attempts_started = 0', [ids[2]])).toBe(1);
  });

  it('discards: it is never delivered, nor listed, nor decided about again', async () => {
    expect((await outbox('discard', ids[0]!)).code).toBe(0);
    await effectsAre([2, 3]);
    refused = [];

    expect((await outbox('list')).stdout).toBe('There is no dead event.\n');
    for (const action of ['retry', 'skip', 'discard']) {
      expect(await outbox(action, ids[0]!)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('no dead event'),
      });
    }
    expect(await effects()).toEqual([2, 3]);
    expect((await service.as().get('/v1/events')).body.data).toHaveLength(3); // the log still has it
  });

  it.each([
    ['an event that there is not', ['retry', randomUUID()]],
    ['one that is not dead', ['skip', 'alive']],
    ['what is no id', ['discard', 'x']],
  ])('refuses %s', async (_, [action, id]) => {
    const { code, stderr } = await outbox(action!, id === 'alive' ? ids[1]! : id!);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^There is no dead event /)]);
    expect(await database.count('outbox', 'published_at IS NULL')).toBe(3);
  });

  it.each([[[]], [['skip']], [['list', 'x']], [['retry', 'a', 'b']], [['revive', 'x']]])(
    'says how it is used: %j',
    async (args) => {
      const { code, stderr } = await outbox(...args);
      expect([code, stderr]).toEqual([1, expect.stringContaining('npm run outbox -- list')]);
    },
  );
});
