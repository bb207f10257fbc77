import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { AcrossTenants } from '../database/across-tenants.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';

const JOB = 'idempotency-key-cleanup';
const BATCH = 500;

/**
 * Removes keys past their retention, on a schedule. Correctness does not wait for it: an expired key is free for a new
 * claim whether or not its row is still there. Unfinished keys have no expiry and are never touched.
 */
@Injectable()
export class KeyCleanup implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(KeyCleanup.name);
  private running: Promise<number> | undefined;
  private stopping = false;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    private readonly scheduler: SchedulerRegistry,
    @Inject(IDEMPOTENCY_OPTIONS) private readonly options: IdempotencyOptions,
  ) {}

  onApplicationBootstrap(): void {
    const interval = setInterval(() => {
      this.run().catch((error: unknown) =>
        this.logger.warn(`The cleanup failed and will be tried again: ${String(error)}`),
      );
    }, this.options.cleanupInterval);
    this.scheduler.addInterval(JOB, interval);
  }

  /** The pool closes after this hook: what is running must have ended by then. */
  async beforeApplicationShutdown(): Promise<void> {
    this.stopping = true;
    if (this.scheduler.doesExist('interval', JOB)) this.scheduler.deleteInterval(JOB);
    await this.running?.catch(() => undefined);
  }

  /**
   * Removes everything that has expired by now, tenant by tenant. While a run is under way it is joined, not repeated.
   *
   * @returns how many keys this process removed
   */
  run(): Promise<number> {
    this.running ??= this.sweep().finally(() => (this.running = undefined));
    return this.running;
  }

  private async sweep(): Promise<number> {
    const tenants = await this.acrossTenants.query<{ tenant_id: string }>(`
      SELECT DISTINCT tenant_id FROM idempotency_keys
      WHERE status = 'completed' AND expires_at <= statement_timestamp()`);
    let removed = 0;
    for (const { tenant_id: tenantId } of tenants) {
      for (let batch = BATCH; batch === BATCH && !this.stopping; removed += batch) {
        batch = await this.removeBatch(tenantId);
      }
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
  private removeBatch(tenantId: string): Promise<number> {
    return this.unitOfWork.run(tenantId, async (transaction) => {
      const expired = await transaction.query<{ key: string; endpoint: string }>(
        `SELECT key, endpoint FROM idempotency_keys
         WHERE tenant_id = $1 AND status = 'completed' AND expires_at <= statement_timestamp()
         ORDER BY expires_at LIMIT ${BATCH} FOR UPDATE SKIP LOCKED`,
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
