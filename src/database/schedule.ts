import { Logger } from '@nestjs/common';
import type { SchedulerRegistry } from '@nestjs/schedule';
import { tell } from '../config/telemetry.js';

/**
 * Work on the database that is done again and again. A run never overlaps another of the same process, a failed one is
 * tried again at the next turn, and {@link stop} waits for the one under way: the pool must not close before.
 */
export class Schedule<T> {
  private readonly logger = new Logger('Schedule');
  private running: Promise<T> | undefined;
  private ended = false;

  /** @param every milliseconds */
  constructor(
    private readonly registry: SchedulerRegistry,
    private readonly name: string,
    private readonly every: number,
    private readonly work: () => Promise<T>,
  ) {}

  /** Whether it has been stopped: long work asks between its pieces. */
  get stopping(): boolean {
    return this.ended;
  }

  /** For `onApplicationBootstrap`. */
  start(): void {
    const interval = setInterval(() => {
      this.run().catch((error: unknown) =>
        this.logger.warn(`${this.name} failed and will be tried again: ${String(error)}`),
      );
    }, this.every);
    this.registry.addInterval(this.name, interval);
    tell('schedule', { work: this.name });
  }

  /** For `beforeApplicationShutdown`: the pool closes after that hook. */
  async stop(): Promise<void> {
    this.ended = true;
    if (this.registry.doesExist('interval', this.name)) this.registry.deleteInterval(this.name);
    await this.running?.catch(() => undefined);
  }

  /**
   * Removes rows tenant by tenant, in batches that are small so that no lock is held for long, until a batch is not full.
   * Gives up between two batches when the schedule is stopped.
   *
   * @param removeBatch removes at most `size` rows of a tenant and says how many
   * @returns how many rows were removed
   */
  async sweep(
    tenants: readonly { readonly tenant_id: string }[],
    size: number,
    removeBatch: (tenantId: string) => Promise<number>,
  ): Promise<number> {
    let removed = 0;
    for (const { tenant_id: tenantId } of tenants) {
      for (let batch = size; batch === size && !this.ended; removed += batch) batch = await removeBatch(tenantId);
    }
    return removed;
  }

  /** Runs it now. While a run is under way it is joined, not repeated. */
  run(): Promise<T> {
    this.running ??= this.measured().finally(() => (this.running = undefined));
    return this.running;
  }

  private async measured(): Promise<T> {
    let outcome: 'succeeded' | 'failed' = 'failed';
    try {
      const result = await this.work();
      outcome = 'succeeded';
      return result;
    } finally {
      tell('scheduled-run', { work: this.name, outcome });
    }
  }
}
