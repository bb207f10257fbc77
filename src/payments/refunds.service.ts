import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { LostRaceError } from '../database/database.errors.js';
import type { Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { Problem } from '../http/problem.js';
import { NotFound } from '../http/problems.js';
import type { TimePosition } from '../http/time-position.js';
import type { StoredResponse } from '../idempotency/key-record.js';
import type { Completion, Operation } from '../idempotency/operation.js';
import { DuplicateExternalRef } from '../orders/order.problems.js';
import { paymentInProgress } from '../orders/orders.service.js';
import type { NewRefund } from './dto/new-refund.js';
import type { Payment, PaymentMethod } from './payment.entity.js';
import { RefundExceedsPayment } from './payment.problems.js';
import { findPayment, lockPayment, reserveRefund } from './payment-table.js';
import { type Course, type Intent, ProviderCourse } from './provider-course.js';
import type { Effect } from './providers/payment-provider.js';
import { PaymentProviders } from './providers/payment-providers.js';
import type { Refund } from './refund.entity.js';
import { RefundLedger } from './refund-ledger.js';
import { findRefund, findRefundOfReference, insertRefund, listRefunds } from './refund-table.js';
import { Replies } from './replies.js';

/** What a refund goes by from its first step on: never computed again. */
export interface RefundIntent extends Intent {
  readonly refundId: string;
  readonly amount: number;
  readonly currency: string;
  readonly method: PaymentMethod;
  readonly chargeRef: string;
}

/** Refunds: money reserved first, sent by {@link ProviderCourse}, written down by {@link RefundLedger}. */
@Injectable()
export class RefundsService {
  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly ledger: RefundLedger,
    private readonly providers: PaymentProviders,
    private readonly course: ProviderCourse,
    private readonly replies: Replies,
  ) {}

  /**
   * Gives money of a payment back, or goes on where an earlier attempt has stopped.
   *
   * @throws Problem `not-found`, `refund-exceeds-payment`, `duplicate-external-ref`, `payment-in-progress`,
   *   `payment-outcome-unknown`, `service-unavailable`
   */
  async refund(operation: Operation, paymentId: string, request: NewRefund): Promise<Completion> {
    if (!operation.isNew) return this.course.goOn(operation, this.courseOf(operation, operation.data as RefundIntent));
    const intent = await operation.step('refund_sent', (transaction) =>
      this.begin(transaction, operation, paymentId, request),
    );
    return this.course.begin(operation, this.courseOf(operation, intent));
  }

  /**
   * Brings an operation to its end for which no request has come back.
   *
   * @param patience milliseconds after which what left no trace is given up
   * @throws StillOpenError, LookUpFailedError
   */
  async reconcile(operation: Operation, patience: number): Promise<Completion> {
    return this.course.reconcile(operation, this.courseOf(operation, operation.data as RefundIntent), patience);
  }

  /** @throws Problem `not-found` */
  async read(tenantId: string, id: string): Promise<Refund> {
    const refund = await this.unitOfWork.read(tenantId, (manager) => findRefund(manager, tenantId, id));
    if (!refund) throw new Problem(NotFound, 'There is no refund with this id.');
    return refund;
  }

  /**
   * The refunds of a payment, oldest first.
   *
   * @throws Problem `not-found`
   */
  async list(
    tenantId: string,
    paymentId: string,
    after: TimePosition | undefined,
    limit: number,
  ): Promise<(Refund & { readonly position: string })[]> {
    return this.unitOfWork.read(tenantId, async (manager) => {
      if (!(await findPayment(manager, tenantId, paymentId))) throw noPayment();
      return listRefunds(manager, tenantId, paymentId, after, limit);
    });
  }

  /** The first step: the money is reserved and the intent on record before anybody is called. */
  private async begin(
    transaction: Transaction,
    operation: Operation,
    paymentId: string,
    request: NewRefund,
  ): Promise<RefundIntent> {
    const payment = await lockPayment(transaction, paymentId);
    if (!payment) throw noPayment();
    if (payment.status === 'pending') throw paymentInProgress(paymentId);
    await refuseTakenReference(transaction, paymentId, request.reference);
    const amount = request.amount ?? refundable(payment);
    if (amount === 0 || !(await reserveRefund(transaction, paymentId, amount))) throw exceeds(payment, amount);
    const { currency, method } = payment;
    const { reason, reference } = request;
    const refundId = uuidv7();
    const refund = { id: refundId, paymentId, amount, currency, reason, reference, operationId: operation.id };
    if (!(await insertRefund(transaction, refund))) {
      throw new LostRaceError('another refund took the reference'); // look again
    }
    return { paymentId, refundId, amount, currency, method, chargeRef: payment.providerRef!, call: 'possible' };
  }

  private courseOf(operation: Operation, intent: RefundIntent): Course<RefundIntent> {
    const { tenantId, id: operationId } = operation;
    const { paymentId, refundId, amount, currency, method, chargeRef } = intent;
    const provider = this.providers.for(method);
    const order = { tenantId, paymentId, operationId, amount, currency, refundId, chargeRef };
    return {
      provider,
      timeout: this.providers.timeout,
      sent: 'refund_sent',
      confirmed: 'refund_confirmed',
      intent,
      send: () => provider.refund({ ...order, key: operation.childKey('refund') }),
      look: () => this.look(tenantId, intent),
      state: () => this.state(tenantId, refundId),
      settle: async (transaction, effects) =>
        this.reply(await this.ledger.settle(transaction, paymentId, refundId, effects), intent, codeOf(effects)),
      refuse: async (transaction, code) =>
        this.reply(await this.ledger.giveUp(transaction, paymentId, refundId), intent, code),
      giveUp: async (transaction) => this.reply(await this.ledger.giveUp(transaction, paymentId, refundId), intent),
    };
  }

  private async look(tenantId: string, intent: RefundIntent): Promise<Effect[]> {
    const { paymentId, refundId, chargeRef, method } = intent;
    const { sentAt: since } = await this.read(tenantId, refundId);
    return this.providers.for(method).findRefunds({ tenantId, paymentId, refundId, chargeRef, since });
  }

  private async state(tenantId: string, refundId: string): Promise<{ settled: boolean; age: number }> {
    const [state] = await this.unitOfWork.read(tenantId, (manager) =>
      manager.query<{ settled: boolean; age: number }[]>(
        `SELECT status <> 'pending' AS settled,
                extract(epoch FROM statement_timestamp() - sent_at)::float8 * 1000 AS age
         FROM refunds WHERE tenant_id = $1 AND id = $2`,
        [tenantId, refundId],
      ),
    );
    return state!;
  }

  private reply(refund: Refund | undefined, { refundId }: RefundIntent, code?: string): StoredResponse {
    if (!refund) throw new Error(`Refund ${refundId} is gone`);
    return this.replies.toRefund(refund, code);
  }
}

function codeOf(effects: readonly Effect[]): string | undefined {
  return effects.find(({ code }) => code !== undefined)?.code;
}

function refundable({ status, amount, refundedAmount, reservedAmount }: Payment): number {
  return status === 'succeeded' ? Math.max(0, amount - refundedAmount - reservedAmount) : 0;
}

function exceeds(payment: Payment, amount: number): Problem {
  const left = refundable(payment);
  return new Problem(RefundExceedsPayment, `${amount} is asked back, and ${left} is left.`, {
    members: { paymentId: payment.id, refundable: left },
  });
}

/** @throws Problem `duplicate-external-ref` when a refund of the payment has that reference */
async function refuseTakenReference(transaction: Transaction, paymentId: string, reference?: string): Promise<void> {
  const refundId = reference === undefined ? undefined : await findRefundOfReference(transaction, paymentId, reference);
  if (refundId === undefined) return;
  throw new Problem(DuplicateExternalRef, `The refund ${refundId} has this reference.`, { members: { refundId } });
}

function noPayment(): Problem {
  return new Problem(NotFound, 'There is no payment with this id.');
}
