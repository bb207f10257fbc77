import { type BeforeApplicationShutdown, Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { AcrossTenants } from '../database/across-tenants.js';
import { Schedule } from '../database/schedule.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { EventLog } from './event-log.js';
import { MESSAGING_OPTIONS, type MessagingOptions } from './messaging.options.js';
import { EventTransport } from './transports/event-transport.js';

const EVERY = 60_000;
const BATCH = 500;

/** Removes events and remembered messages that are older than they are kept, in small batches, tenant by tenant. */
@Injectable()
export class MessagingRetention implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly schedule: Schedule<number>;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    private readonly log: EventLog,
    private readonly transport: EventTransport,
    scheduler: SchedulerRegistry,
    @Inject(MESSAGING_OPTIONS) private readonly options: MessagingOptions,
  ) {
    this.schedule = new Schedule(scheduler, 'messaging-retention', EVERY, () => this.sweep());
  }

  onApplicationBootstrap(): void {
    this.schedule.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.schedule.stop();
  }

  /** @returns how many rows this process removed */
  run(): Promise<number> {
    return this.schedule.run();
  }

  private async sweep(): Promise<number> {
    const { eventRetention, inboxRetention } = this.options;
    const events = await this.sweepTable('outbox', 'created_at', eventRetention, (tenantId) =>
      this.log.trim(tenantId, eventRetention, !this.transport.hasReceivers, BATCH),
    );
    const messages = await this.sweepTable('processed_messages', 'processed_at', inboxRetention, (tenantId) =>
      this.removeMessages(tenantId, inboxRetention),
    );
    return events + messages;
  }

  private async sweepTable(
    table: 'outbox' | 'processed_messages',
    since: string,
    retention: number,
    removeBatch: (tenantId: string) => Promise<number>,
  ): Promise<number> {
    // From one tenant to the next in the index: DISTINCT would read every row of all of them.
    const tenants = await this.acrossTenants.query<{ tenant_id: string }>(
      `WITH RECURSIVE oldest AS (
         (SELECT tenant_id, ${since} AS since FROM ${table} ORDER BY tenant_id, ${since} LIMIT 1)
         UNION ALL
         SELECT next.* FROM oldest CROSS JOIN LATERAL (
           SELECT t.tenant_id, t.${since} FROM ${table} t WHERE t.tenant_id > oldest.tenant_id
           ORDER BY t.tenant_id, t.${since} LIMIT 1) next)
       SELECT tenant_id FROM oldest WHERE since <= statement_timestamp() - $1::float8 * interval '1 millisecond'`,
      [retention],
    );
    return this.schedule.sweep(tenants, BATCH, removeBatch);
  }

  private removeMessages(tenantId: string, retention: number): Promise<number> {
    return this.unitOfWork.run(tenantId, async (transaction) => {
      const old = await transaction.query<{ consumer: string; message_id: string }>(
        `SELECT consumer, message_id FROM processed_messages
         WHERE tenant_id = $1 AND processed_at <= statement_timestamp() - $2::float8 * interval '1 millisecond'
         ORDER BY processed_at LIMIT ${BATCH} FOR UPDATE SKIP LOCKED`,
        [tenantId, retention],
      );
      if (old.length === 0) return 0;
      const removed = await transaction.query(
        `DELETE FROM processed_messages
         WHERE tenant_id = $1 AND (consumer, message_id) IN (SELECT * FROM unnest($2::text[], $3::text[]))
         RETURNING 1`,
        [tenantId, old.map(({ consumer }) => consumer), old.map(({ message_id: id }) => id)],
      );
      return removed.length;
    });
  }
}
