import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Finds the few operations that nobody has finished yet among many keys; claims of local operations are never in it, for
 * nobody ever sees them unfinished. And the inbox: one row for each message that a consumer has applied.
 */
export class LeasesAndInbox1764500000005 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE INDEX idempotency_keys_unfinished ON idempotency_keys (tenant_id, endpoint, operation_id)
        WHERE status = 'in_progress' AND operation_id IS NOT NULL`);
    await runner.query(`
      CREATE TABLE processed_messages (
        tenant_id    uuid NOT NULL,
        consumer     text NOT NULL,
        message_id   text NOT NULL,
        fingerprint  bytea NOT NULL,
        processed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
        PRIMARY KEY (tenant_id, consumer, message_id)
      )`);
    await runner.query(`CREATE INDEX processed_messages_by_age ON processed_messages (tenant_id, processed_at)`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE processed_messages`);
    await runner.query(`DROP INDEX idempotency_keys_unfinished`);
  }
}
