import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What the relay needs to know of each event. The index finds the first unpublished event of each aggregate, one step per
 * aggregate, however many events stand behind it.
 */
export class Relay1764500000008 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE outbox
        ADD COLUMN published_at timestamptz,
        ADD COLUMN available_at timestamptz,
        ADD COLUMN lease_token uuid,
        ADD COLUMN lease_until timestamptz,
        ADD COLUMN attempts_started integer NOT NULL DEFAULT 0,
        ADD COLUMN attempts_finished integer NOT NULL DEFAULT 0,
        ADD COLUMN dead_at timestamptz,
        ADD COLUMN dead_reason text,
        ADD COLUMN resolution text CHECK (resolution IN ('skipped', 'discarded'))`);
    await runner.query(`
      CREATE INDEX outbox_unpublished ON outbox (tenant_id, aggregateid, aggregateversion) WHERE published_at IS NULL`);
    await runner.query(`CREATE INDEX outbox_dead ON outbox (tenant_id, dead_at) WHERE dead_at IS NOT NULL`);
    await runner.query(`CREATE INDEX outbox_by_age ON outbox (tenant_id, created_at)`);
    await runner.query(`ALTER TABLE outbox_heads ADD COLUMN trimmed bigint NOT NULL DEFAULT 0`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`ALTER TABLE outbox_heads DROP COLUMN trimmed`);
    await runner.query(`DROP INDEX outbox_by_age, outbox_dead, outbox_unpublished`);
    await runner.query(`
      ALTER TABLE outbox
        DROP COLUMN published_at, DROP COLUMN available_at, DROP COLUMN lease_token, DROP COLUMN lease_until,
        DROP COLUMN attempts_started, DROP COLUMN attempts_finished, DROP COLUMN dead_at, DROP COLUMN dead_reason,
        DROP COLUMN resolution`);
  }
}
