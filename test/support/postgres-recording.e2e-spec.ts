import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo } from 'node:net';
import { setImmediate } from 'node:timers';
import pg from 'pg';
import { PostgresProxy } from './postgres-proxy.js';

const databaseUrl = process.env.TEST_SERVER_URL!;
const table = `recording_spec_${process.pid}_${Date.now()}`;
const round = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let direct: pg.Client;
let proxy: PostgresProxy;

async function client(options: { pipeline?: boolean; url?: string } = {}): Promise<pg.Client> {
  const { pipeline = false, url = proxy.url } = options;
  const made = new pg.Client({ connectionString: url, pipeline });
  made.on('error', () => undefined);
  await made.connect();
  return made;
}

async function outcome(work: Promise<unknown>): Promise<'ok' | Error> {
  return work.then(
    () => 'ok' as const,
    (error: Error) => error,
  );
}

beforeAll(async () => {
  direct = new pg.Client({ connectionString: databaseUrl });
  await direct.connect();
  await direct.query(`CREATE TABLE ${table} (id serial PRIMARY KEY, name text NOT NULL)`);
});
afterAll(async () => {
  await direct.query(`DROP TABLE ${table}`);
  await direct.end();
});
beforeEach(async () => {
  proxy = await PostgresProxy.start(databaseUrl);
});
afterEach(async () => {
  await proxy.stop();
});

describe('counting waits', () => {
  it('counts one wait for each awaited statement', async () => {
    const c = await client();
    const recording = proxy.record();
    await c.query('BEGIN');
    await c.query(`INSERT INTO ${table} (name) VALUES ($1)`, ['awaited']);
    await c.query({ name: 'named', text: 'SELECT $1::int', values: [1] });
    await c.query({ name: 'named', text: 'SELECT $1::int', values: [2] });
    await c.query('COMMIT');
    recording.stop();
    await c.query('SELECT 1');
    expect(recording.turns.map((turn) => turn.statements)).toEqual([
      ['BEGIN'],
      [`INSERT INTO ${table} (name) VALUES ($1)`],
      ['SELECT $1::int'],
      ['SELECT $1::int'],
      ['COMMIT'],
    ]);
    expect(recording.waits).toBe(5);
  });

  it('counts one wait for statements pipelined before any answer', async () => {
    const c = await client({ pipeline: true });
    const recording = proxy.record();
    await Promise.all([
      c.query('BEGIN'),
      c.query(`INSERT INTO ${table} (name) VALUES ($1)`, ['pipelined']),
      c.query({ name: 'p', text: 'SELECT $1::int', values: [1] }),
      c.query('COMMIT'),
    ]);
    expect(recording.waits).toBe(1);
    expect(recording.statements.map((s) => s.sql)).toEqual([
      'BEGIN',
      `INSERT INTO ${table} (name) VALUES ($1)`,
      'SELECT $1::int',
      'COMMIT',
    ]);
    await Promise.all([c.query('SELECT 1'), c.query('SELECT 2')]);
    expect(recording.waits).toBe(2);
  });

  it('counts one wait, fifty times over, also when the burst goes over several ticks', async () => {
    const c = await client({ pipeline: true });
    for (let i = 0; i < 50; i++) {
      const recording = proxy.record();
      const first = c.query('SELECT 1');
      await round();
      const second = c.query('SELECT $1::int', [2]);
      await Promise.resolve();
      await round();
      await Promise.all([first, second, c.query('SELECT 3')]);
      expect(recording.stop().turns).toHaveLength(1);
    }
  });

  it('counts a wait for a client that needs only the first of two pipelined answers', async () => {
    const c = await client({ pipeline: true });
    const recording = proxy.record();
    const first = c.query('SELECT 1');
    const second = c.query('SELECT 2');
    await first;
    await Promise.all([c.query('SELECT 3'), second]);
    expect(recording.turns.map((turn) => turn.statements)).toEqual([['SELECT 1', 'SELECT 2'], ['SELECT 3']]);
  });

  it('counts no wait for what is sent when Postgres has answered but the client has not heard of it', async () => {
    const c = await client({ pipeline: true });
    const recording = proxy.record();
    const later: Promise<unknown>[] = [];
    proxy.onBackend = ({ type, sql }) => {
      if (type === 'ReadyForQuery' && sql === 'SELECT 1') later.push(c.query('SELECT 2'));
    };
    await c.query('SELECT 1');
    await Promise.all(later);
    expect(recording.turns.map((turn) => turn.statements)).toEqual([['SELECT 1', 'SELECT 2']]);
  });

  it('does not look at packets: a burst in crumbs of seven bytes, and one larger than all socket buffers', async () => {
    const crumbler = createServer((socket) => {
      const onward = connect(Number(new URL(proxy.url).port), '127.0.0.1').setNoDelay(true);
      onward.on('error', () => undefined).pipe(socket.on('error', () => undefined));
      const crumbs: Buffer[] = [];
      let busy = false;
      socket.on('data', (chunk: Buffer) => {
        for (let at = 0; at < chunk.length; at += 7) crumbs.push(chunk.subarray(at, at + 7));
        if (busy) return;
        busy = true;
        const next = (): void => {
          const crumb = crumbs.shift();
          busy = crumb !== undefined;
          if (crumb) onward.write(crumb, () => setImmediate(next));
        };
        next();
      });
      socket.on('end', () => onward.end());
    });
    await new Promise<void>((resolve) => crumbler.listen(0, '127.0.0.1', resolve));
    const url = new URL(proxy.url);
    url.port = String((crumbler.address() as AddressInfo).port);
    const crumbled = await client({ pipeline: true, url: url.href });
    const large = await client({ pipeline: true });

    const recording = proxy.record();
    const answers = await Promise.all([1, 2, 3, 4].map((n) => crumbled.query('SELECT $1::int AS n', [n])));
    expect(answers.map((answer) => (answer.rows[0] as { n: number }).n)).toEqual([1, 2, 3, 4]);
    expect(recording.waits).toBe(1);

    const filler = 'é'.repeat(5_000);
    const many = Array.from({ length: 500 }, (_, n) => large.query('SELECT $1::int AS n, $2 AS f', [n, filler]));
    const rows = (await Promise.all(many)).map((answer) => answer.rows[0] as { n: number; f: string });
    expect(rows.every((row, n) => row.n === n && row.f === filler)).toBe(true);
    expect(recording.waits).toBe(2);
    expect(recording.turns[1]?.statements).toHaveLength(500);
    await crumbled.end();
    crumbler.close();
  });

  it('keeps connections apart and leaves logging in and out uncounted', async () => {
    const recording = proxy.record();
    const [a, b] = [await client({ pipeline: true }), await client({ pipeline: true })];
    await Promise.all([a.query('SELECT 1'), b.query('SELECT 2'), a.query('SELECT 3')]);
    await a.end();
    await b.end();
    expect(recording.turns).toHaveLength(2);
    expect(recording.turns).toContainEqual({ connection: 1, statements: ['SELECT 1', 'SELECT 3'] });
    expect(recording.turns).toContainEqual({ connection: 2, statements: ['SELECT 2'] });
  });

  it('goes on after an error in the middle of a burst', async () => {
    const c = await client({ pipeline: true });
    const recording = proxy.record();
    const results = await Promise.all([
      outcome(c.query('BEGIN')),
      outcome(c.query('SELECT 1 / $1::int', [0])),
      outcome(c.query('SELECT 1')),
      outcome(c.query('ROLLBACK')),
    ]);
    expect(results.map((r) => (r === 'ok' ? r : (r as pg.DatabaseError).code))).toEqual(['ok', '22012', '25P02', 'ok']);
    await c.query('SELECT 1');
    expect(recording.waits).toBe(2);
  });

  it('does not hang where a client needs a part of the answer: pages by Flush, COPY', async () => {
    const c = await client();
    const recording = proxy.record();
    const paged = await c.query({ text: 'SELECT n FROM generate_series(1, 5) n', rows: 2 } as pg.QueryConfig);
    expect(paged.rows).toHaveLength(5);
    expect(await outcome(c.query(`COPY ${table} (name) FROM STDIN`))).toMatchObject({ code: '57014' });
    expect((await c.query('SELECT 1')).rowCount).toBe(1);
    expect(recording.waits).toBeGreaterThanOrEqual(4);
  });

  it('hands out an error that a client asked for by Flush, before it sends Sync', async () => {
    const c = await client();
    proxy.record();
    const { connection } = c as unknown as { connection: pg.Connection };
    const failed = once(connection, 'errorMessage');
    connection.parse({ name: '', text: 'SELECT nonsense', types: [] }, true);
    connection.flush();
    expect((await failed)[0]).toMatchObject({ code: '42703' });
    connection.sync();
    await once(connection, 'readyForQuery');
  });
});
