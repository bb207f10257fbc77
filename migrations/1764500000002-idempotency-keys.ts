import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The primary key is what decides who owns a key. Room is left on each page so that the answer, written right after the
 * claim, finds its place beside it.
 */
export class IdempotencyKeys1764500000002 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE idempotency_keys (
        tenant_id           uuid NOT NULL,
        key                 text NOT NULL,
        endpoint            text NOT NULL,
        status              text NOT NULL CHECK (status IN ('in_progress', 'completed')),
        version             integer NOT NULL DEFAULT 1,
        fingerprint         bytea NOT NULL,
        fingerprint_version smallint NOT NULL,
        operation_id        uuid,
        lease_until         timestamptz,
        recovery_point      text,
        recovery_data       jsonb,
        response_status     smallint,
        response_headers    jsonb,
        response_body       bytea,
        created_at          timestamptz NOT NULL,
        completed_at        timestamptz,
        expires_at          timestamptz,
        PRIMARY KEY (tenant_id, key, endpoint),
        CHECK ((status = 'completed') = (completed_at IS NOT NULL AND expires_at IS NOT NULL AND response_status IS NOT NULL))
      ) WITH (fillfactor = 70)`);
    await runner.query(`
      CREATE INDEX idempotency_keys_expiry ON idempotency_keys (tenant_id, expires_at) WHERE status = 'completed'`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE idempotency_keys`);
  }
}
