import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { readFile } from 'node:fs/promises';
import pg from 'pg';
import type { PlayedAccident } from '../../demo/played-accident.js';
import { waitFor } from '../support/wait-for.js';
import { buildDemo, DemoProcess, isRunning } from './demo-process.js';

const SERVER = process.env.TEST_SERVER_URL!;
const ON_SERVER = { DATABASE_URL: SERVER };
const demos: DemoProcess[] = [];

beforeAll(buildDemo);
afterEach(async () => {
  await Promise.all(demos.splice(0).map((demo) => demo.remove()));
});

async function start(args: string[], environment?: Record<string, string>): Promise<DemoProcess> {
  const demo = await DemoProcess.start(args, environment);
  demos.push(demo);
  return demo;
}

async function play(args: string[]): Promise<DemoProcess & { status: unknown }> {
  const demo = await start(args, ON_SERVER);
  return Object.assign(demo, { status: await demo.ended });
}

async function databases(): Promise<string[]> {
  const client = new pg.Client({ connectionString: SERVER });
  await client.connect();
  const { rows } = await client.query<{ datname: string }>(`SELECT datname FROM pg_database WHERE datname ~ '^demo_'`);
  await client.end();
  return rows.map(({ datname }) => datname);
}

/** What must be there afterwards, and what there is without the mechanisms. */
const COUNTS: Record<string, [right: Record<string, number>, naive: Record<string, number>]> = {
  'lost-reply': [
    { orders: 1, events: 1 },
    { orders: 2, events: 2 },
  ],
  'double-click': [
    { payments: 1, charges: 1, events: 2 },
    { payments: 2, charges: 2, events: 3 },
  ],
  'killed-after-commit': [
    { orders: 1, events: 1 },
    { orders: 2, events: 2 },
  ],
  'changed-body': [
    { orders: 1, events: 1, 'false answers': 0 },
    { orders: 2, events: 2, 'false answers': 0 },
  ],
  'provider-timeout': [
    { payments: 1, charges: 1, bookings: 1 },
    { payments: 1, charges: 2, bookings: 2 },
  ],
  'redelivered-message': [
    { payments: 1, charges: 1, bookings: 1, mails: 1 },
    { payments: 1, charges: 1, bookings: 3, mails: 3 },
  ],
  'stale-edit': [
    { orders: 1, 'edits saved': 2, 'edits lost': 0 },
    { orders: 1, 'edits saved': 2, 'edits lost': 1 },
  ],
};

/** What the service's client has to see: status, code, replay; attempts without an answer left out. */
const ANSWERS: Record<string, unknown[][]> = {
  'lost-reply': [[201, undefined, true]],
  'double-click': [
    [201, undefined, false],
    [201, undefined, true],
  ],
  'killed-after-commit': [[201, undefined, true]],
  'changed-body': [
    [201, undefined, false],
    [422, 'idempotency-key-reused', false],
  ],
  'provider-timeout': [
    [503, 'payment-outcome-unknown', false],
    [201, undefined, false],
  ],
  'redelivered-message': [[201, undefined, false]],
  'stale-edit': [
    [200, undefined, false],
    [412, 'precondition-failed', false],
    [200, undefined, false],
    [200, undefined, false],
  ],
};

const ACCIDENTS = Object.keys(COUNTS);

describe('npm run demo, all of it,', () => {
  let demo: DemoProcess;
  let status: unknown;
  let played: PlayedAccident[];
  beforeAll(async () => {
    demo = await DemoProcess.start(['--json', 'result.json'], ON_SERVER);
    status = await demo.ended;
    played = await demo.result();
  });
  afterAll(() => demo.remove());

  it('ends green, and leaves nothing but its result', async () => {
    expect([status, demo.complained]).toEqual([0, '']);
    expect(played.map(({ name }) => name)).toEqual(ACCIDENTS);
    expect(await databases()).toEqual([]);
    expect(await demo.left()).toEqual(['result.json']);
  });

  it.each(ACCIDENTS)('shows %s harmless with the mechanisms and real without', (name) => {
    const { leaves, with: careful, without, isShown } = played.find((one) => one.name === name)!;
    const [right, naive] = COUNTS[name]!;

    expect(leaves).toEqual(right);
    expect(careful.counts).toEqual(right);
    expect(without.counts).toEqual(naive);
    expect([careful.verdict, without.verdict, isShown]).toEqual(['harmless', 'accident', true]);
  });

  it.each(ACCIDENTS)('tells in the story of %s what was counted', (name) => {
    const { with: careful, without, leaves } = played.find((one) => one.name === name)!;
    const scene = demo.printed.split(/^\d\. /m)[ACCIDENTS.indexOf(name) + 1];

    for (const what of Object.keys(leaves)) {
      const numbers = [careful.counts[what], without.counts[what], leaves[what]].join(' +');
      expect(scene).toMatch(new RegExp(`^ +${what} +${numbers}$`, 'm'));
    }
    expect(demo.printed).toMatch(new RegExp(`^ +✓ ${name} +harmless +\\d`, 'm'));
    // eslint-disable-next-line no-control-regex -- what is looked for
    expect(demo.printed).not.toMatch(/\u001b/);
  });

  it.each(ACCIDENTS)('has the client see in %s what the contract promises', (name) => {
    const { with: careful, without } = played.find((one) => one.name === name)!;
    const answered = careful.seen.filter(({ status }) => status !== undefined);
    const told = answered.map(({ status, code, replayed }) => [status, code, replayed]);
    if (name === 'double-click') told.sort((a, b) => Number(a[2]) - Number(b[2])); // either click may be the first

    expect(told).toEqual(ANSWERS[name]);
    expect(without.seen.some(({ replayed }) => replayed)).toBe(false);
  });

  it.each(['lost-reply', 'killed-after-commit'])('really breaks the connection in %s, to both', (name) => {
    const { with: careful, without } = played.find((one) => one.name === name)!;

    for (const { seen } of [careful, without]) expect(seen[0]!.status).toBeUndefined();
  });

  it('kills the process when the order is committed, of both', () => {
    const { with: careful, without } = played.find(({ name }) => name === 'killed-after-commit')!;

    for (const { notes } of [careful, without]) expect(notes).toEqual([expect.stringMatching(/: 1$/)]);
  });
});

describe('npm run demo', () => {
  it.each([
    ['the naive twin plays the careful one', ['--with', 'naive'], /✗ lost-reply +1 order too many/],
    ['the service plays the naive one', ['--without', 'service'], /✗ lost-reply +harmless +harmless/],
  ])('ends red when %s, and keeps what the processes said', async (_, args, line) => {
    const demo = await play([...args, 'lost-reply']);

    expect(demo.status).toBe(1);
    expect(demo.printed).toMatch(line);
    expect(demo.printed).toContain('Not shown as it should be: lost-reply');
    const [, log] = /printed: (.+)\n/.exec(demo.printed)!;
    expect(await readFile(log!, 'utf8')).toMatch(/listening on/);
    expect(await databases()).toEqual([]);
  });

  it('plays those that are named, on a Postgres of its own that it takes away again', async () => {
    const demo = await start(['stale-edit', 'changed-body']);
    const postgres = await waitFor(async () => (await demo.processes()).at(-1), { timeoutMs: 60_000 });

    expect([await demo.ended, demo.complained]).toEqual([0, '']);
    expect(demo.printed.match(/✓ \S+ +harmless/g)!.map((line) => line.split(/ +/)[1])).toEqual([
      'changed-body',
      'stale-edit',
    ]);
    expect(isRunning(postgres)).toBe(false);
    expect(await demo.left()).toEqual([]);
  });

  it.each([
    ['a misspelt accident', ['lost-replay'], 'lost-replay'],
    ['an unknown option', ['--fast'], '--fast'],
    ['an unknown side', ['--with', 'magic'], 'magic'],
  ])('refuses %s with status 2 and says what there is', async (_, args, wrong) => {
    const demo = await play(args);

    expect([demo.status, demo.printed]).toEqual([2, '']);
    expect(demo.complained).toContain(wrong);
    expect(demo.complained).toContain('npm run demo -- [options] [accident ...]');
  });

  it.each([
    [
      'the Postgres is not there',
      { DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/x' },
      /DATABASE_URL .*ECONNREFUSED/,
    ],
    ['the sandbox may not run', { NODE_ENV: 'production' }, /NODE_ENV is production/],
  ])('says in a line what is wrong when %s, and leaves nothing', async (_, environment, reason) => {
    const demo = await start([], environment);

    expect(await demo.ended).toBe(1);
    expect(demo.complained).toMatch(reason);
    expect(demo.complained).not.toMatch(/hunter2|\n./);
    expect(await demo.left()).toEqual([]);
    expect(await demo.processes()).toEqual([]);
  });

  it('lists the accidents', async () => {
    const demo = await play(['--list']);

    expect(demo.status).toBe(0);
    expect(demo.printed.match(/^\S+/gm)).toEqual(ACCIDENTS);
  });
});

describe('Ctrl-C', () => {
  it.each<[NodeJS.Signals, number]>([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ])('in the middle (%s) leaves no process and no folder behind', async (signal, status) => {
    const demo = await start([]);
    await waitFor(() => demo.printed.includes('2. A double click'), {
      timeoutMs: 60_000,
      description: 'the second one',
    });
    const pids = await demo.processes();
    expect(pids.length).toBeGreaterThanOrEqual(3); // two servers and Postgres
    demo.signal(signal);

    expect(await demo.ended).toBe(status);
    expect(pids.filter(isRunning)).toEqual([]);
    expect(await demo.left()).toEqual([]);
    expect(demo.complained).toBe('');
    expect(demo.printed).not.toContain('3. ');
  });

  it('at the start, when Postgres is only half there, leaves nothing either', async () => {
    const demo = await start([]);
    await waitFor(async () => (await demo.left()).length > 0, { timeoutMs: 60_000, description: 'the folder' });
    demo.signal('SIGINT');

    expect(await demo.ended).toBe(130);
    expect(await demo.processes()).toEqual([]);
    expect(await demo.left()).toEqual([]);
  });

  it('on a server of somebody else leaves no database there', async () => {
    const demo = await start([], ON_SERVER);
    await waitFor(() => demo.printed.includes('2. A double click'), {
      timeoutMs: 60_000,
      description: 'the second one',
    });
    expect((await databases()).length).toBe(2);
    demo.signal('SIGINT');

    expect(await demo.ended).toBe(130);
    expect(await databases()).toEqual([]);
  });
});
