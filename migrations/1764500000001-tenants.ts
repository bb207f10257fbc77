import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Reference tables: small, the same on every node of a cluster, and the only ones without a tenant in their key. */
export class Tenants1764500000001 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE tenants (
        id         uuid PRIMARY KEY,
        name       text NOT NULL CONSTRAINT tenants_name_key UNIQUE,
        created_at timestamptz NOT NULL DEFAULT statement_timestamp()
      )`);
    await runner.query(`
      CREATE TABLE api_keys (
        id         uuid PRIMARY KEY,
        tenant_id  uuid NOT NULL REFERENCES tenants (id),
        hash       bytea NOT NULL CONSTRAINT api_keys_hash_key UNIQUE,
        hint       text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
        revoked_at timestamptz
      )`);
    await runner.query(`CREATE INDEX api_keys_tenant_id ON api_keys (tenant_id)`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE api_keys, tenants`);
  }
}
