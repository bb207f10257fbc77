import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * `feed_batches` holds the last batches of a feed, one SHA-256 for each record behind the other. `hash_version` says what
 * they were made by. The index is for records from before them: whether their orders were deleted.
 */
export class Feeds1764500000007 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE feeds (
        tenant_id     uuid NOT NULL,
        feed          text NOT NULL,
        epoch         bigint NOT NULL CHECK (epoch BETWEEN 1 AND 9007199254740991),
        last_sequence bigint NOT NULL CHECK (last_sequence BETWEEN 0 AND 9007199254740991),
        created_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
        updated_at    timestamptz NOT NULL DEFAULT statement_timestamp(),
        PRIMARY KEY (tenant_id, feed)
      ) WITH (fillfactor = 80)`);
    await runner.query(`
      CREATE TABLE feed_batches (
        tenant_id      uuid NOT NULL,
        feed           text NOT NULL,
        first_sequence bigint NOT NULL,
        last_sequence  bigint NOT NULL,
        hash_version   smallint NOT NULL,
        hashes         bytea NOT NULL CHECK (octet_length(hashes) = 32 * (last_sequence - first_sequence + 1)),
        created_at     timestamptz NOT NULL DEFAULT statement_timestamp(),
        PRIMARY KEY (tenant_id, feed, first_sequence),
        FOREIGN KEY (tenant_id, feed) REFERENCES feeds (tenant_id, feed)
      )`);
    await runner.query(`
      CREATE INDEX orders_deleted_refs ON orders (tenant_id, external_ref)
        WHERE external_ref IS NOT NULL AND deleted_at IS NOT NULL`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP INDEX orders_deleted_refs`);
    await runner.query(`DROP TABLE feed_batches, feeds`);
  }
}
