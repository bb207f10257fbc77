import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * `payments_one_live_per_order` is what stands behind every other guard: two payments of one order that both live cannot
 * be written, whatever code path tries. `money_movements` says what really moved, one row per movement of the provider.
 */
export class Payments1764500000006 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      ALTER TABLE orders
        ADD COLUMN live_payment_id uuid,
        ADD COLUMN had_payment boolean NOT NULL DEFAULT false`);
    await runner.query(`
      CREATE TABLE payments (
        tenant_id       uuid NOT NULL,
        id              uuid NOT NULL,
        order_id        uuid NOT NULL,
        status          text NOT NULL CHECK (status IN ('pending', 'succeeded', 'declined', 'failed')),
        amount          bigint NOT NULL CHECK (amount BETWEEN 1 AND 9007199254740991),
        refunded_amount bigint NOT NULL DEFAULT 0 CHECK (refunded_amount BETWEEN 0 AND amount),
        reserved_amount bigint NOT NULL DEFAULT 0 CHECK (reserved_amount >= 0),
        currency        text NOT NULL,
        method          text NOT NULL CHECK (method IN ('card', 'bank_transfer')),
        provider_ref    text,
        decline_code    text,
        receipt_email   text,
        operation_id    uuid NOT NULL,
        sent_at         timestamptz NOT NULL DEFAULT statement_timestamp(),
        version         integer NOT NULL CHECK (version > 0),
        created_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
        updated_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
        PRIMARY KEY (tenant_id, id),
        FOREIGN KEY (tenant_id, order_id) REFERENCES orders (tenant_id, id)
      ) WITH (fillfactor = 80)`);
    await runner.query(`
      CREATE UNIQUE INDEX payments_one_live_per_order ON payments (tenant_id, order_id)
        WHERE status IN ('pending', 'succeeded')`);
    await runner.query(`CREATE INDEX payments_of_order ON payments (tenant_id, order_id, created_at, id)`);
    await runner.query(`CREATE INDEX payments_given_up ON payments (tenant_id, sent_at) WHERE status = 'failed'`);
    await runner.query(`
      CREATE TABLE refunds (
        tenant_id    uuid NOT NULL,
        id           uuid NOT NULL,
        payment_id   uuid NOT NULL,
        amount       bigint NOT NULL CHECK (amount > 0),
        currency     text NOT NULL,
        status       text NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
        reason       text,
        reference    text,
        provider_ref text,
        operation_id uuid,
        sent_at      timestamptz NOT NULL DEFAULT statement_timestamp(),
        version      integer NOT NULL CHECK (version > 0),
        created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
        updated_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
        PRIMARY KEY (tenant_id, id),
        FOREIGN KEY (tenant_id, payment_id) REFERENCES payments (tenant_id, id),
        CONSTRAINT refunds_reference_key UNIQUE (tenant_id, payment_id, reference),
        CONSTRAINT refunds_provider_ref_key UNIQUE (tenant_id, payment_id, provider_ref)
      ) WITH (fillfactor = 80)`);
    await runner.query(`CREATE INDEX refunds_of_payment ON refunds (tenant_id, payment_id, created_at, id)`);
    await runner.query(`CREATE INDEX refunds_given_up ON refunds (tenant_id, sent_at) WHERE status = 'failed'`);
    await runner.query(`
      CREATE TABLE money_movements (
        tenant_id    uuid NOT NULL,
        provider     text NOT NULL,
        provider_ref text NOT NULL,
        kind         text NOT NULL CHECK (kind IN ('charge', 'refund', 'refund_reversal')),
        payment_id   uuid NOT NULL,
        refund_id    uuid,
        amount       bigint NOT NULL CHECK (CASE kind WHEN 'refund' THEN amount < 0 ELSE amount > 0 END),
        currency     text NOT NULL,
        surplus      boolean NOT NULL DEFAULT false,
        created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
        PRIMARY KEY (tenant_id, provider, provider_ref, kind),
        FOREIGN KEY (tenant_id, payment_id) REFERENCES payments (tenant_id, id)
      )`);
    await runner.query(`CREATE INDEX money_movements_of_payment ON money_movements (tenant_id, payment_id)`);
    await runner.query(`
      CREATE TABLE surplus_charges (
        tenant_id   uuid NOT NULL,
        id          uuid NOT NULL,
        payment_id  uuid NOT NULL,
        provider    text NOT NULL,
        charge_ref  text NOT NULL,
        amount      bigint NOT NULL CHECK (amount > 0),
        currency    text NOT NULL,
        status      text NOT NULL CHECK (status IN ('due', 'sent', 'returned')),
        lease_until timestamptz,
        sent_at     timestamptz,
        created_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
        PRIMARY KEY (tenant_id, id),
        FOREIGN KEY (tenant_id, payment_id) REFERENCES payments (tenant_id, id),
        CONSTRAINT surplus_charges_ref_key UNIQUE (tenant_id, provider, charge_ref)
      )`);
    await runner.query(
      `CREATE INDEX surplus_charges_open ON surplus_charges (tenant_id, id) WHERE status <> 'returned'`,
    );
    await runner.query(`
      CREATE TABLE payment_reviews (
        tenant_id   uuid NOT NULL,
        id          uuid NOT NULL,
        payment_id  uuid NOT NULL,
        subject_id  uuid NOT NULL,
        reason      text NOT NULL,
        detail      text NOT NULL,
        opened_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
        resolved_at timestamptz,
        resolution  text,
        PRIMARY KEY (tenant_id, id),
        FOREIGN KEY (tenant_id, payment_id) REFERENCES payments (tenant_id, id)
      )`);
    await runner.query(`
      CREATE UNIQUE INDEX payment_reviews_open_key ON payment_reviews (tenant_id, subject_id, reason)
        WHERE resolved_at IS NULL`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE payment_reviews, surplus_charges, money_movements, refunds, payments`);
    await runner.query(`ALTER TABLE orders DROP COLUMN live_payment_id, DROP COLUMN had_payment`);
  }
}
