import { type BeforeApplicationShutdown, Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { AcrossTenants } from '../database/across-tenants.js';
import { Schedule } from '../database/schedule.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';
import { CREATED } from './lease-store.js';

const BATCH = 500;

/** A condition for rows that may go, and the column by which the oldest come first. */
interface Dead {
  readonly where: string;
  readonly since: 'expires_at' | 'lease_until';
}

const EXPIRED: Dead = { where: `status = 'completed' AND expires_at <= statement_timestamp()`, since: 'expires_at' };

function abandoned(retention: number): Dead {
  const where = `status = 'in_progress' AND recovery_point = '${CREATED}' AND lease_until <= statement_timestamp()
    AND created_at <= statement_timestamp() - interval '${retention} milliseconds'`;
  return { where, since: 'lease_until' };
}

/**
 * Removes keys past their retention, on a schedule. Correctness does not wait for it: an expired key is free for a new
 * claim whether or not its row is still there. Unfinished keys have no expiry and stay, but for claims that were
 * abandoned before their first step: behind those nothing can have happened.
 */
@Injectable()
export class KeyCleanup implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly schedule: Schedule<number>;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    scheduler: SchedulerRegistry,
    @Inject(IDEMPOTENCY_OPTIONS) private readonly options: IdempotencyOptions,
  ) {
    const { cleanupInterval } = options;
    this.schedule = new Schedule(scheduler, 'idempotency-key-cleanup', cleanupInterval, () => this.sweep());
  }

  onApplicationBootstrap(): void {
    this.schedule.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.schedule.stop();
  }

  /**
   * Removes everything that has expired by now, tenant by tenant. While a run is under way it is joined, not repeated.
   *
   * @returns how many keys this process removed
   */
  run(): Promise<number> {
    return this.schedule.run();
  }

  private async sweep(): Promise<number> {
    let removed = 0;
    for (const dead of [EXPIRED, abandoned(this.options.retention)]) {
      const tenants = await this.acrossTenants.query<{ tenant_id: string }>(
        `SELECT DISTINCT tenant_id FROM idempotency_keys WHERE ${dead.where}`,
      );
      removed += await this.schedule.sweep(tenants, BATCH, (tenantId) => this.removeBatch(tenantId, dead));
    }
    return removed;
  }

  /**
   * Small batches, so that no lock is held for long. SKIP LOCKED lets replicas share the work instead of waiting for each
   * other, and passes by a key that is being claimed at this moment.
   *
   * Two statements, because a plan may run a subquery again for every row of the table, each time with a LIMIT of its
   * own: batches without bound, and a cleanup that never comes to its end.
   */
  private removeBatch(tenantId: string, { where, since }: Dead): Promise<number> {
    return this.unitOfWork.run(tenantId, async (transaction) => {
      const expired = await transaction.query<{ key: string; endpoint: string }>(
        `SELECT key, endpoint FROM idempotency_keys
         WHERE tenant_id = $1 AND ${where} ORDER BY ${since} LIMIT ${BATCH} FOR UPDATE SKIP LOCKED`,
        [tenantId],
      );
      if (expired.length === 0) return 0;
      const removed = await transaction.query(
        `DELETE FROM idempotency_keys
         WHERE tenant_id = $1 AND key = ANY ($2::text[])
           AND (key, endpoint) IN (SELECT * FROM unnest($2::text[], $3::text[]))
         RETURNING 1`,
        [tenantId, expired.map(({ key }) => key), expired.map(({ endpoint }) => endpoint)],
      );
      return removed.length;
    });
  }
}
