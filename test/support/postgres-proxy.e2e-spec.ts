import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { PostgresProxy, statement, type WireMessage } from './postgres-proxy.js';
import { waitFor } from './wait-for.js';

const databaseUrl = process.env.TEST_SERVER_URL!;
const table = `proxy_spec_${process.pid}_${Date.now()}`;

let direct: pg.Client;
let proxy: PostgresProxy;

async function client(options: { pipeline?: boolean; url?: string } = {}): Promise<pg.Client> {
  const { pipeline = false, url = proxy.url } = options;
  const made = new pg.Client({ connectionString: url, pipeline });
  made.on('error', () => undefined);
  await made.connect();
  return made;
}

/** Rows that everybody can see, read past the proxy. */
async function committed(name: string): Promise<number> {
  const result = await direct.query<{ n: number }>(`SELECT count(*)::int AS n FROM ${table} WHERE name = $1`, [name]);
  return result.rows[0]?.n ?? -1;
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

describe.each([
  ['plain', false],
  ['pipelined', true],
])('acting on an exact message, %s client', (kind, pipeline) => {
  async function insertAndCommit(name: string): Promise<'ok' | Error> {
    const c = await client({ pipeline });
    await c.query('BEGIN');
    await c.query(`INSERT INTO ${table} (name) VALUES ($1)`, [name]);
    return outcome(c.query('COMMIT'));
  }

  it('pass-then-cut: the row is committed and the client sees a lost connection', async () => {
    for (let i = 0; i < 20; i++) {
      const name = `${kind} sent ${i}`;
      const cut = proxy.once(statement.isSent('commit'), 'pass-then-cut');
      expect(await insertAndCommit(name)).toMatchObject({
        message: expect.stringMatching(/terminated|ECONNRESET/),
      });
      await cut;
      await waitFor(async () => (await committed(name)) === 1, { description: 'the committed row' });
    }
    expect(proxy.connections).toBe(0);
  });

  it('cut on the answer: the same', async () => {
    const cut = proxy.once((m) => m.tag === 'COMMIT', 'cut');
    expect(await insertAndCommit(`${kind} answered`)).not.toBe('ok');
    expect(await cut).toMatchObject({ type: 'CommandComplete', sql: 'COMMIT' });
    expect(await committed(`${kind} answered`)).toBe(1);
  });

  it('cut on the statement: nothing of it reaches Postgres', async () => {
    const cut = proxy.once(statement.starts('COMMIT'), 'cut');
    expect(await insertAndCommit(`${kind} unsent`)).not.toBe('ok');
    await cut;
    const sessions = 'SELECT count(*)::int AS n FROM pg_stat_activity WHERE query LIKE $1 AND pid <> pg_backend_pid()';
    await waitFor(async () => (await direct.query(sessions, [`INSERT INTO ${table}%`])).rows[0].n === 0);
    expect(await committed(`${kind} unsent`)).toBe(0);
  });

  it('isSent cuts an extended autocommit statement so that it is carried out', async () => {
    const c = await client({ pipeline });
    const cut = proxy.once(statement.isSent(/^INSERT/), 'pass-then-cut');
    expect(await outcome(c.query(`INSERT INTO ${table} (name) VALUES ($1)`, [`${kind} auto`]))).not.toBe('ok');
    expect(await cut).toMatchObject({ type: 'Sync' });
    await waitFor(async () => (await committed(`${kind} auto`)) === 1);
  });

  it('holds a message until it is released', async () => {
    const name = `${kind} held`;
    const commit = proxy.hold(statement.starts('COMMIT'));
    const done = insertAndCommit(name);
    expect(await commit.reached).toMatchObject({ side: 'frontend', type: 'Query', sql: 'COMMIT' });
    expect(await committed(name)).toBe(0);
    commit.release();
    expect(await done).toBe('ok');
    expect(await committed(name)).toBe(1);
  });

  it('holds an answer while the other direction and other connections go on', async () => {
    const name = `${kind} answer held`;
    const answer = proxy.hold(statement.isAnswered('COMMIT'));
    const done = insertAndCommit(name);
    await answer.reached;
    expect(await committed(name)).toBe(1);
    const other = await client({ pipeline });
    await other.query('SELECT 1');
    answer.release('cut');
    expect(await done).not.toBe('ok');
  });
});

describe('reading', () => {
  it('gives each answer its statement, tag, SQLSTATE and transaction status', async () => {
    const c = await client({ pipeline: true });
    const seen: Partial<WireMessage>[] = [];
    proxy.onBackend = ({ type, sql, tag, code, transactionStatus }) => {
      if (/^(CommandComplete|ErrorResponse|ReadyForQuery)$/.test(type)) {
        seen.push(JSON.parse(JSON.stringify({ sql, tag, code, transactionStatus })) as Partial<WireMessage>);
      }
    };
    await Promise.allSettled(
      ['BEGIN', 'SELECT $1::int', 'SELECT x'].map((sql) => c.query(sql, /\$/.test(sql) ? [1] : [])),
    );
    await waitFor(() => seen.length === 6, { description: 'the last ReadyForQuery' });
    expect(seen).toEqual([
      { sql: 'BEGIN', tag: 'BEGIN' },
      { sql: 'BEGIN', transactionStatus: 'T' },
      { sql: 'SELECT $1::int', tag: 'SELECT 1' },
      { sql: 'SELECT $1::int', transactionStatus: 'T' },
      { sql: 'SELECT x', code: '42703' },
      { sql: 'SELECT x', transactionStatus: 'E' },
    ]);
  });

  it('drops what it is told to: a query without an answer runs into its own timeout', async () => {
    const c = await client();
    proxy.onFrontend = (m) => (m.sql === 'SELECT 7' ? 'drop' : 'pass');
    expect(await outcome(c.query({ text: 'SELECT 7', query_timeout: 50 } as pg.QueryConfig))).toMatchObject({
      message: 'Query read timeout',
    });
  });

  it('reports a predicate that throws when it stops', async () => {
    const own = await PostgresProxy.start(databaseUrl);
    void own.once(() => {
      throw new Error('a fault in the test');
    }, 'pass');
    await expect(client({ url: own.url })).rejects.toThrow();
    await expect(own.stop()).rejects.toThrow('a fault in the test');
  });

  it('rejects what is still armed when it stops', async () => {
    const own = await PostgresProxy.start(databaseUrl);
    const never = own.once(statement.isSent('nothing'), 'cut');
    await own.stop();
    await expect(never).rejects.toThrow('stopped before');
  });
});

describe('a database that is away', () => {
  it('refuses new connections until it accepts again, and cuts those that stand', async () => {
    const c = await client();
    proxy.refuse();
    await expect(client()).rejects.toThrow(/ECONNRESET|terminated/);
    expect((await c.query('SELECT 1')).rowCount).toBe(1);
    const running = outcome(c.query('SELECT pg_sleep(60)'));
    proxy.cutAll();
    expect(await running).not.toBe('ok');
    expect(proxy.connections).toBe(0);
    await direct.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'");
    proxy.accept();
    expect((await (await client()).query('SELECT 1')).rowCount).toBe(1);
    expect(proxy.connections).toBe(1);
  });

  it('passes on that Postgres ended a session, and that nobody listens', async () => {
    const c = await client();
    const { pid } = (await c.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]!;
    proxy.record();
    const running = outcome(c.query('SELECT pg_sleep(60)'));
    await waitFor(async () => {
      const found = await direct.query("SELECT 1 FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'", [
        pid,
      ]);
      return found.rowCount === 1;
    });
    await direct.query('SELECT pg_terminate_backend($1)', [pid]);
    expect(await running).toMatchObject({ code: '57P01' });

    const nowhere = await PostgresProxy.start('postgres://root@127.0.0.1:1/test');
    await expect(client({ url: nowhere.url })).rejects.toThrow();
    await nowhere.stop();
  });
});
