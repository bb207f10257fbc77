import { type BeforeApplicationShutdown, Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { AcrossTenants } from '../database/across-tenants.js';
import { Schedule } from '../database/schedule.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { NOTIFICATIONS_OPTIONS, type NotificationsOptions } from './notifications.options.js';

const EVERY = 60_000;
const BATCH = 500;

/**
 * Removes what was sent or given up as long ago as the inbox remembers events: until then the row stands behind the
 * inbox, and no address is kept for longer.
 */
@Injectable()
export class NotificationRetention implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly schedule: Schedule<number>;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    scheduler: SchedulerRegistry,
    @Inject(NOTIFICATIONS_OPTIONS) private readonly options: NotificationsOptions,
  ) {
    this.schedule = new Schedule(scheduler, 'notification-retention', EVERY, () => this.sweep());
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
    const tenants = await this.acrossTenants.query<{ tenant_id: string }>(
      `SELECT DISTINCT tenant_id FROM notifications
       WHERE status <> 'due' AND ended_at <= statement_timestamp() - $1::float8 * interval '1 millisecond'`,
      [this.options.retention],
    );
    return this.schedule.sweep(tenants, BATCH, (tenantId) => this.removeBatch(tenantId));
  }

  private removeBatch(tenantId: string): Promise<number> {
    return this.unitOfWork.run(tenantId, async (transaction) => {
      const old = await transaction.query<{ id: string }>(
        `SELECT id FROM notifications
         WHERE tenant_id = $1 AND status <> 'due'
           AND ended_at <= statement_timestamp() - $2::float8 * interval '1 millisecond'
         ORDER BY ended_at LIMIT ${BATCH} FOR UPDATE SKIP LOCKED`,
        [tenantId, this.options.retention],
      );
      if (old.length === 0) return 0;
      const removed = await transaction.query(
        'DELETE FROM notifications WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) RETURNING 1',
        [tenantId, old.map(({ id }) => id)],
      );
      return removed.length;
    });
  }
}
