import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { newOrder } from '../support/api-client.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { allPublished, createEffectTables, expectEffectsOnce, startRelay } from '../messaging/relay-processes.js';

/** Where Debian puts it is in no user's path. */
const PATH = [process.env.PATH, '/usr/sbin', '/usr/local/sbin'].join(delimiter);
const isInstalled = spawnSync('pgbouncer', ['--version'], { env: { PATH } }).status === 0;
if (!isInstalled) console.warn('PgBouncer is not installed: nothing is tested through it');
const NOBODY = 65_534;

/** Fewer connections to the server than the service has to the pooler: transactions must share them. */
const SERVER_CONNECTIONS = 4;

(isInstalled ? describe : describe.skip)('the service through PgBouncer in transaction mode', () => {
  let database: TestDatabase;
  let pooler: ChildProcess;
  let folder: string;
  let url: URL;
  let service: ServiceProcess;

  beforeAll(async () => {
    database = await TestDatabase.create();
    await createEffectTables(database);
    const server = new URL(database.url);
    const port = await freePort();
    folder = await mkdtemp(join(tmpdir(), 'pgbouncer-'));
    const password = server.password && ` password=${decodeURIComponent(server.password)}`;
    const host = server.searchParams.get('host') ?? server.hostname;
    await writeFile(
      join(folder, 'pgbouncer.ini'),
      `[databases]
* = host=${host} port=${server.port || 5432} user=${decodeURIComponent(server.username)}${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${SERVER_CONNECTIONS}
`,
    );
    await chmod(folder, 0o755);
    pooler = spawn('pgbouncer', [join(folder, 'pgbouncer.ini')], {
      env: { PATH },
      stdio: 'ignore',
      ...(process.getuid?.() === 0 && { uid: NOBODY, gid: NOBODY }),
    });
    url = new URL(`postgres://pooled@127.0.0.1:${port}${server.pathname}`);
    await waitFor(() => canConnect(url.href), { description: 'PgBouncer to listen' });
    service = await startRelay(url.href, { longestPause: 50 }, { DATABASE_POOL_SIZE: '10', IDEMPOTENCY_WAIT: '10s' });
  });
  afterAll(async () => {
    await ServiceProcess.killAll();
    if (pooler.exitCode === null) {
      pooler.kill('SIGKILL');
      await once(pooler, 'exit');
    }
    await rm(folder, { recursive: true });
    await database.drop();
  });

  const post = (key: string, body: unknown = newOrder()) =>
    service.request('POST', '/v1/orders', {
      headers: { Authorization: `Bearer ${ACME.key}`, 'Idempotency-Key': key },
      body,
    });

  it('executes once, replays, and delivers every event to its consumer', async () => {
    const answers = await Promise.all(Array.from({ length: 60 }, (_, n) => post(`k-${n % 20}`)));
    expect(answers.map(({ status }) => status)).toEqual(Array(60).fill(201));
    const replays = answers.filter(({ headers }) => headers['idempotent-replayed'] === 'true');
    expect(replays).toHaveLength(40);
    await allPublished(database);

    expect(await database.counts()).toEqual({ orders: 20, events: 20, keys: 20 });
    await expectEffectsOnce(database);
    const sessions = `datname = current_database() AND usename = current_user AND application_name = 'orders-service'`;
    expect(await database.count('pg_stat_activity', sessions)).toBeLessThanOrEqual(SERVER_CONNECTIONS);
  });

  it('stores refusals, reads pages and gives events their places', async () => {
    const refused = await Promise.all([1, 2].map(() => post('refused', { currency: 'EUR' })));
    expect(refused.map(({ status }) => status)).toEqual([400, 400]);
    const headers = { Authorization: `Bearer ${ACME.key}` };
    const log = await service.request('GET', '/v1/events?limit=100', { headers });
    expect([log.status, log.json.data.length]).toEqual([200, await database.count('outbox')]);
  });

  it('goes on when another client of the pooler has changed what a session is', async () => {
    const other = new pg.Client({ connectionString: url.href });
    await other.connect();
    await other.query(`SET statement_timeout = '1ms'`); // stays with the connection to the server
    await other.end();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => post(`later-${n}`)));

    // A write past the limit is refused whole: nothing is half there, and a retry finds out.
    for (const { status } of answers) expect([201, 503]).toContain(status);
    expect(await database.count('orders')).toBe(await database.count('outbox', `type = 'order.created'`));
  });
});

async function freePort(): Promise<number> {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

async function canConnect(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  try {
    await client.connect();
    await client.query('SELECT 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
