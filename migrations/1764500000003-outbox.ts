import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * `id`, `aggregatetype`, `aggregateid`, `type` and `payload` are the columns of Debezium's outbox event router.
 * `position` is given later, under the tenant's head row: it is the only order that a reader may follow.
 */
export class Outbox1764500000003 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE outbox (
        tenant_id        uuid NOT NULL,
        id               uuid NOT NULL,
        aggregatetype    text NOT NULL,
        aggregateid      uuid NOT NULL,
        aggregateversion integer NOT NULL,
        type             text NOT NULL,
        payload          json NOT NULL,
        created_at       timestamptz NOT NULL DEFAULT statement_timestamp(),
        position         bigint,
        PRIMARY KEY (tenant_id, id),
        CONSTRAINT outbox_change_key UNIQUE (tenant_id, aggregateid, aggregateversion, aggregatetype),
        CONSTRAINT outbox_position_key UNIQUE (tenant_id, position)
      ) WITH (fillfactor = 80)`);
    await runner.query(`CREATE INDEX outbox_without_position ON outbox (tenant_id) WHERE position IS NULL`);
    await runner.query(`
      CREATE TABLE outbox_heads (
        tenant_id uuid PRIMARY KEY,
        position  bigint NOT NULL DEFAULT 0
      )`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE outbox_heads, outbox`);
  }
}
