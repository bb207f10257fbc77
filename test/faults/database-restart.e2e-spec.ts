import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { MIGRATIONS } from '../../migrations/index.js';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/database/embedded-postgres.js';
import { migrate } from '../../src/database/migrator.js';
import { newOrder } from '../support/api-client.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';

describe('K25: Postgres restarts under load', () => {
  let directory: string;
  let postgres: EmbeddedPostgres;
  let service: ServiceProcess;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'orders-restart-'));
    postgres = await startEmbeddedPostgres({ directory });
    await migrate(postgres.url, MIGRATIONS);
    service = await ServiceProcess.start({
      DATABASE_URL: postgres.url,
      SEED_DEMO_TENANTS: 'true',
      LOG_LEVEL: 'fatal',
      DATABASE_POOL_SIZE: '4',
    });
  });
  afterAll(async () => {
    await ServiceProcess.killAll();
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  });

  it('the process lives, answers 503 meanwhile, recovers by itself, and there is one order for each key', async () => {
    const seen = { created: 0, replayed: 0, unavailable: 0 };
    let running = true;

    /** Retries each key until it is answered, as a client should. */
    const client = async (name: number): Promise<number> => {
      let keys = 0;
      for (; running; keys++) {
        for (;;) {
          const { status, headers } = await service.request('POST', '/v1/orders', {
            headers: { Authorization: `Bearer ${ACME.key}`, 'Idempotency-Key': `${name}-${keys}` },
            body: newOrder(),
          });
          if (status === 201) {
            if (headers['idempotent-replayed']) seen.replayed++;
            else seen.created++;
            break;
          }
          expect(status).toBe(503);
          expect(headers['retry-after']).toBe('1');
          seen.unavailable++;
        }
      }
      return keys;
    };
    const clients = Array.from({ length: 6 }, (_, name) => client(name));

    await waitFor(() => seen.created >= 50, { description: 'the load to be under way' });
    await postgres.stop();
    await waitFor(() => seen.unavailable >= 10, { description: 'requests to fail' });
    const before = seen.created + seen.replayed;
    const { url } = postgres;
    postgres = await startEmbeddedPostgres({ directory });
    expect(postgres.url).toBe(url);
    await waitFor(() => seen.created + seen.replayed >= before + 50, { description: 'the service to recover' });
    running = false;
    const keys = (await Promise.all(clients)).reduce((sum, count) => sum + count, 0);

    const database = new pg.Client({ connectionString: url });
    await database.connect();
    const { rows } = await database.query(`
      SELECT (SELECT count(*) FROM orders)::int AS orders, (SELECT count(*) FROM outbox)::int AS events,
             (SELECT count(*) FROM idempotency_keys WHERE status = 'completed')::int AS keys`);
    await database.end();
    expect(rows[0]).toEqual({ orders: keys, events: keys, keys });
    expect(seen.created + seen.replayed).toBe(keys);
  });
});
