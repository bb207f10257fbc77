// Plain JavaScript on the built service: Jest loads this file outside of its own module system.
import { randomBytes } from 'node:crypto';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { MIGRATIONS } from '../../dist/migrations/index.js';
import { startEmbeddedPostgres } from '../../dist/src/database/embedded-postgres.js';
import { migrate } from '../../dist/src/database/migrator.js';

/**
 * One Postgres for all suites: the one in `DATABASE_URL`, else an embedded one that is thrown away. Each suite gets its
 * own database, copied from a template that was migrated once.
 */
export default async function globalSetup() {
  const external = process.env.DATABASE_URL;
  // What a test starts must be told its database: it is never to find this one in its environment.
  delete process.env.DATABASE_URL;
  const serverUrl = external || (await throwawayServer());
  const template = `template_${randomBytes(6).toString('hex')}`;
  process.env.TEST_SERVER_URL = serverUrl;
  process.env.TEST_TEMPLATE = template;

  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  const { rows } = await client.query('SHOW server_version');
  await client.query(`CREATE DATABASE ${template}`);
  await client.end();
  const templateUrl = new URL(serverUrl);
  templateUrl.pathname = `/${template}`;
  await migrate(templateUrl.href, MIGRATIONS);
  console.log(`\nThe tests run on Postgres ${rows[0].server_version} (${external ? 'DATABASE_URL' : 'embedded'}).`);
  if (!process.env.RABBITMQ_URL) console.log('RABBITMQ_URL is not set: the tests of test/broker are skipped.');
}

async function throwawayServer() {
  const embedded = await startEmbeddedPostgres({
    directory: await mkdtemp(join(tmpdir(), 'orders-test-')),
    parameters: { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off', max_connections: '300' },
  });
  globalThis.throwawayPostgres = embedded;
  return embedded.url;
}
