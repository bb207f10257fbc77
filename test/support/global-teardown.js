import { rm } from 'node:fs/promises';
import pg from 'pg';

export default async function globalTeardown() {
  const embedded = globalThis.throwawayPostgres;
  if (embedded) {
    await embedded.stop();
    await rm(embedded.directory, { recursive: true, force: true });
    return;
  }
  const client = new pg.Client({ connectionString: process.env.TEST_SERVER_URL });
  await client.connect();
  await client.query(`DROP DATABASE IF EXISTS ${process.env.TEST_TEMPLATE} WITH (FORCE)`);
  await client.end();
}
