import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What is to be told to somebody outside, written with the memory of the event that asked for it; a job sends it. One for
 * each event and channel, whatever the inbox has forgotten. The index finds what is due, and the tenants that have any.
 */
export class Notifications1764500000009 implements MigrationInterface {
  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE notifications (
        tenant_id    uuid NOT NULL,
        id           uuid NOT NULL,
        event_id     text NOT NULL,
        channel      text NOT NULL CHECK (channel IN ('email')),
        recipient    text NOT NULL,
        content      jsonb NOT NULL,
        message_id   text NOT NULL,
        status       text NOT NULL DEFAULT 'due' CHECK (status IN ('due', 'sent', 'failed')),
        attempts     integer NOT NULL DEFAULT 0,
        available_at timestamptz NOT NULL DEFAULT statement_timestamp(),
        lease_token  uuid,
        lease_until  timestamptz,
        reason       text,
        created_at   timestamptz NOT NULL DEFAULT statement_timestamp(),
        ended_at     timestamptz,
        PRIMARY KEY (tenant_id, id),
        CONSTRAINT notifications_event_key UNIQUE (tenant_id, event_id, channel),
        CHECK ((status = 'due') = (ended_at IS NULL))
      )`);
    await runner.query(
      `CREATE INDEX notifications_due ON notifications (tenant_id, available_at) WHERE status = 'due'`,
    );
    await runner.query(
      `CREATE INDEX notifications_by_end ON notifications (tenant_id, ended_at) WHERE status <> 'due'`,
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE notifications`);
  }
}
