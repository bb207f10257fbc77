import { ServiceProcess } from '../support/service-process.js';
import { TestDatabase } from '../support/test-database.js';
import type { TestBroker } from './broker.js';

/** Short ones: a relay that was killed or stalls loses its events soon. */
const MESSAGING = { relayLease: 1_500, longestPause: 100, firstDelay: 100, attempts: 5 };

/** The queues in which the messages of those services wait. */
export const DELAYS = [100, 200, 400, 800];

/** A database with the table that the counting services write to, and a tenant. */
export async function countingDatabase(): Promise<{ database: TestDatabase; tenantId: string }> {
  const database = await TestDatabase.create();
  await database.query('CREATE TABLE effects (tenant_id uuid NOT NULL, event_id uuid NOT NULL)');
  const [tenant] = await database.query<{ id: string }>(
    `INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'counting') RETURNING id`,
  );
  return { database, tenantId: tenant!.id };
}

/** A relay and a consumer in a process of their own. */
export function startCountingService(
  databaseUrl: string,
  broker: TestBroker,
  environment: Record<string, string> = {},
): Promise<ServiceProcess> {
  return ServiceProcess.start(
    {
      DATABASE_URL: databaseUrl,
      LOG_LEVEL: 'warn',
      MESSAGING: JSON.stringify(MESSAGING),
      ...broker.environment(),
      ...environment,
    },
    { entry: 'test/broker/counting-service.js' },
  );
}
