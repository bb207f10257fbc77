import type { MigrationInterface, QueryRunner } from 'typeorm';

/** A deleted order leaves its row: its id stays spent, its version goes on, and only its external reference is free. */
export class Orders1764500000004 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE orders (
        tenant_id    uuid NOT NULL,
        id           uuid NOT NULL,
        external_ref text,
        status       text NOT NULL CHECK (status IN ('pending', 'paid', 'partially_refunded', 'refunded', 'cancelled')),
        currency     text NOT NULL,
        items        jsonb NOT NULL,
        total_amount bigint NOT NULL CHECK (total_amount BETWEEN 1 AND 9007199254740991),
        metadata     jsonb NOT NULL,
        version      integer NOT NULL CHECK (version > 0),
        created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
        updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
        deleted_at   timestamptz,
        PRIMARY KEY (tenant_id, id)
      ) WITH (fillfactor = 80)`);
    await runner.query(`
      CREATE UNIQUE INDEX orders_external_ref_key ON orders (tenant_id, external_ref)
        WHERE external_ref IS NOT NULL AND deleted_at IS NULL`);
    await runner.query(`CREATE INDEX orders_by_age ON orders (tenant_id, created_at, id)`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE orders`);
  }
}
