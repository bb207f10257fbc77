import type { TestDatabase } from '../../support/test-database.js';

/** Stores completed keys as the service would, one second of retention apart, none of them expired. */
export async function insertKeys(database: TestDatabase, tenantId: string, count: number): Promise<void> {
  await database.query(
    `INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, response_status,
       response_headers, response_body, created_at, completed_at, expires_at)
     SELECT $1, gen_random_uuid(), 'orders.create', 'completed', decode(repeat('ab', 32), 'hex'), 1, 201,
       '{"Content-Type":"application/json"}', convert_to(repeat('x', 300), 'UTF8'), statement_timestamp(),
       statement_timestamp(), statement_timestamp() + interval '1 day' + n * interval '1 second'
     FROM generate_series(1, $2::int) n`,
    [tenantId, count],
  );
}
