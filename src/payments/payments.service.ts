import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import type { Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { Problem } from '../http/problem.js';
import { NotFound } from '../http/problems.js';
import type { TimePosition } from '../http/time-position.js';
import type { Completion, Operation } from '../idempotency/operation.js';
import type { Order } from '../orders/order.entity.js';
import { OrdersService, paymentInProgress } from '../orders/orders.service.js';
import { type NewPayment, sourceOf } from './dto/new-payment.js';
import type { Payment, PaymentMethod } from './payment.entity.js';
import { OrderAlreadyPaid, OrderNotPayable } from './payment.problems.js';
import { PaymentLedger } from './payment-ledger.js';
import { findPayment, insertPayment, listPayments } from './payment-table.js';
import { type Course, type Intent, ProviderCourse } from './provider-course.js';
import type { Effect } from './providers/payment-provider.js';
import { PaymentProviders } from './providers/payment-providers.js';
import { Replies } from './replies.js';

/** What a payment goes by from its first step on: never computed again. */
export interface ChargeIntent extends Intent {
  readonly orderId: string;
  readonly amount: number;
  readonly currency: string;
  readonly method: PaymentMethod;
}

/** Payments: begun under the order's lock, sent by {@link ProviderCourse}, written down by {@link PaymentLedger}. */
@Injectable()
export class PaymentsService {
  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly orders: OrdersService,
    private readonly ledger: PaymentLedger,
    private readonly providers: PaymentProviders,
    private readonly course: ProviderCourse,
    private readonly replies: Replies,
  ) {}

  /**
   * Pays an order's total as it is now, or goes on where an earlier attempt has stopped.
   *
   * @throws Problem `not-found`, `order-already-paid`, `order-not-payable`, `payment-in-progress`,
   *   `payment-outcome-unknown`, `service-unavailable`
   */
  async pay(operation: Operation, orderId: string, request: NewPayment): Promise<Completion> {
    const source = sourceOf(request);
    if (!operation.isNew) {
      return this.course.goOn(operation, this.courseOf(operation, operation.data as ChargeIntent, source));
    }
    const intent = await operation.step('charge_sent', (transaction) =>
      this.begin(transaction, operation, orderId, request),
    );
    return this.course.begin(operation, this.courseOf(operation, intent, source));
  }

  /**
   * Brings an operation to its end for which no request has come back.
   *
   * @param patience milliseconds after which what left no trace is given up
   * @throws StillOpenError, LookUpFailedError
   */
  async reconcile(operation: Operation, patience: number): Promise<Completion> {
    return this.course.reconcile(operation, this.courseOf(operation, operation.data as ChargeIntent), patience);
  }

  /** @throws Problem `not-found` */
  async read(tenantId: string, id: string): Promise<Payment> {
    const payment = await this.unitOfWork.read(tenantId, (manager) => findPayment(manager, tenantId, id));
    if (!payment) throw new Problem(NotFound, 'There is no payment with this id.');
    return payment;
  }

  /**
   * The payments of an order, oldest first.
   *
   * @throws Problem `not-found`
   */
  async list(
    tenantId: string,
    orderId: string,
    after: TimePosition | undefined,
    limit: number,
  ): Promise<(Payment & { readonly position: string })[]> {
    await this.orders.read(tenantId, orderId);
    return this.unitOfWork.read(tenantId, (manager) => listPayments(manager, tenantId, orderId, after, limit));
  }

  /** The first step: the order is held and closed, and the intent is on record before anybody is called. */
  private async begin(
    transaction: Transaction,
    operation: Operation,
    orderId: string,
    { method, receiptEmail }: NewPayment,
  ): Promise<ChargeIntent> {
    const order = await this.orders.lock(transaction, orderId);
    refuseUnpayable(order);
    const { totalAmount: amount, currency } = order;
    const paymentId = uuidv7();
    const payment = { id: paymentId, orderId, amount, currency, method, operationId: operation.id };
    const inserted =
      order.livePaymentId === null &&
      (await insertPayment(transaction, { ...payment, receiptEmail: receiptEmail ?? null }));
    if (!inserted) throw paymentInProgress(order.livePaymentId ?? paymentId);
    await this.orders.closeFor(transaction, orderId, paymentId);
    return { paymentId, orderId, amount, currency, method, call: 'possible' };
  }

  private courseOf(operation: Operation, intent: ChargeIntent, source = ''): Course<ChargeIntent> {
    const { tenantId, id: operationId } = operation;
    const { paymentId, amount, currency, method } = intent;
    const provider = this.providers.for(method);
    const order = { tenantId, paymentId, operationId, amount, currency, source };
    return {
      provider,
      timeout: this.providers.timeout,
      sent: 'charge_sent',
      confirmed: 'charge_confirmed',
      intent,
      send: () => provider.charge({ ...order, key: operation.childKey('charge') }),
      look: () => this.look(tenantId, intent),
      state: () => this.state(tenantId, paymentId),
      settle: async (transaction, effects) =>
        this.reply(await this.ledger.settle(transaction, paymentId, effects), intent),
      refuse: async (transaction, code) => this.reply(await this.ledger.refuse(transaction, paymentId, code), intent),
      giveUp: async (transaction) => this.reply(await this.ledger.giveUp(transaction, paymentId), intent),
    };
  }

  private async look(tenantId: string, { paymentId, method }: ChargeIntent): Promise<Effect[]> {
    const { sentAt: since } = await this.read(tenantId, paymentId);
    return this.providers.for(method).findCharges({ tenantId, paymentId, since });
  }

  private async state(tenantId: string, paymentId: string): Promise<{ settled: boolean; age: number }> {
    const [state] = await this.unitOfWork.read(tenantId, (manager) =>
      manager.query<{ settled: boolean; age: number }[]>(
        `SELECT status <> 'pending' AS settled,
                extract(epoch FROM statement_timestamp() - sent_at)::float8 * 1000 AS age
         FROM payments WHERE tenant_id = $1 AND id = $2`,
        [tenantId, paymentId],
      ),
    );
    return state!;
  }

  private reply(payment: Payment | undefined, { paymentId }: ChargeIntent) {
    if (!payment) throw new Error(`Payment ${paymentId} is gone`);
    return this.replies.toPayment(payment);
  }
}

/** @throws Problem `order-already-paid`, `order-not-payable` */
function refuseUnpayable({ id: orderId, status }: Order): void {
  if (status === 'pending') return;
  const members = { members: { orderId } };
  if (status === 'cancelled') throw new Problem(OrderNotPayable, 'The order is cancelled.', members);
  throw new Problem(OrderAlreadyPaid, `The order is ${status}.`, members);
}
