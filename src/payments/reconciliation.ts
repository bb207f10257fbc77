import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import { Schedule } from '../database/schedule.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { LeaseLostError, type Operation } from '../idempotency/operation.js';
import { type UnfinishedOperation, UnfinishedOperations } from '../idempotency/unfinished-operations.js';
import { AskingAgain } from './asking-again.js';
import { LateEffects } from './late-effects.js';
import { askForReview } from './money-table.js';
import { PAYMENTS_OPTIONS, type PaymentsOptions } from './payments.options.js';
import { type ChargeIntent, PaymentsService } from './payments.service.js';
import { TooEarlyError } from './provider-course.js';
import { type RefundIntent, RefundsService } from './refunds.service.js';
import { SurplusCharges } from './surplus-charges.js';

const BATCH = 100;

export const PAYMENTS_ENDPOINT = 'payments.create';
export const REFUNDS_ENDPOINT = 'refunds.create';

/** What a run came to. */
export interface Reconciled {
  /** Operations that were brought to their end. */
  readonly settled: number;
  /** Operations of which the provider shows nothing decisive yet. */
  readonly open: number;
}

/**
 * Brings to an end what no request comes back for, on a schedule and safe on replicas: an operation is taken over as a
 * retry would take it, so that of both one goes on. It only reads the provider, and completes the waiting key with the
 * answer that the request would have got. What has left no trace is given up in the end; what a person must decide is
 * put on a list (`npm run payments`).
 */
@Injectable()
export class Reconciliation implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(Reconciliation.name);
  private readonly schedule: Schedule<Reconciled>;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly operations: UnfinishedOperations,
    private readonly payments: PaymentsService,
    private readonly refunds: RefundsService,
    private readonly late: LateEffects,
    private readonly again: AskingAgain,
    private readonly surplus: SurplusCharges,
    scheduler: SchedulerRegistry,
    @Inject(PAYMENTS_OPTIONS) private readonly options: PaymentsOptions,
  ) {
    this.schedule = new Schedule(scheduler, 'reconciliation', options.reconciliationInterval, () => this.reconcile());
  }

  onApplicationBootstrap(): void {
    this.schedule.start();
  }

  async beforeApplicationShutdown(): Promise<void> {
    await this.schedule.stop();
  }

  /** Looks at everything that is open, now. While a run is under way it is joined, not repeated. */
  run(): Promise<Reconciled> {
    return this.schedule.run();
  }

  private async reconcile(): Promise<Reconciled> {
    const total = { settled: 0, open: 0 };
    for (const tenantId of await this.operations.tenants()) {
      for (const endpoint of [PAYMENTS_ENDPOINT, REFUNDS_ENDPOINT]) await this.finishAll(tenantId, endpoint, total);
    }
    for (const look of [this.late, this.again]) {
      await look.run().catch((error: unknown) => this.logger.warn(`late_effects_not_found: ${String(error)}`));
    }
    for (const tenantId of await this.surplus.tenants()) await this.surplus.giveBack(tenantId);
    return total;
  }

  private async finishAll(tenantId: string, endpoint: string, total: { settled: number; open: number }): Promise<void> {
    for (let after = '', page = BATCH; page === BATCH && !this.schedule.stopping;) {
      const unfinished = await this.operations.list(tenantId, endpoint, BATCH, after);
      for (const operation of unfinished) {
        const outcome = await this.finish(operation);
        if (outcome !== 'taken') total[outcome] += 1;
      }
      page = unfinished.length;
      after = unfinished.at(-1)?.operationId ?? '';
    }
  }

  private async finish(unfinished: UnfinishedOperation): Promise<'settled' | 'open' | 'taken'> {
    const operation = await this.operations.takeOver(unfinished);
    if (!operation) return 'taken';
    const service = unfinished.scope.endpoint === PAYMENTS_ENDPOINT ? this.payments : this.refunds;
    try {
      await service.reconcile(operation, this.options.giveUp);
      return 'settled';
    } catch (error) {
      if (error instanceof LeaseLostError) return 'taken';
      this.logger.debug(`${unfinished.scope.endpoint} ${unfinished.operationId}: ${String(error)}`);
      // What is given up a moment later is no question for a person.
      if (!(error instanceof TooEarlyError)) await this.askWhenOverdue(unfinished, error);
      await this.leave(operation);
      return 'open';
    }
  }

  /** Nobody can say by reading what became of it, for longer than anything should take: a person must look. */
  private async askWhenOverdue({ scope, age, data }: UnfinishedOperation, error: unknown): Promise<void> {
    if (age <= this.options.giveUp) return;
    const intent = data as ChargeIntent | RefundIntent;
    const subjectId = 'refundId' in intent ? intent.refundId : intent.paymentId;
    await this.unitOfWork
      .run(scope.tenantId, (transaction) =>
        askForReview(transaction, intent.paymentId, { subjectId, reason: 'undecided', detail: String(error) }),
      )
      .catch((failure: unknown) => this.logger.warn(`review_not_written: ${String(failure)}`));
  }

  private async leave(operation: Operation): Promise<void> {
    await operation.abandon().catch((error: unknown) => {
      this.logger.warn(`An operation could not be given back and stays until its lease lapses: ${String(error)}`);
    });
  }
}
