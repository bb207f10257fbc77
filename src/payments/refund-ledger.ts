import { Injectable, Logger } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { tell } from '../config/telemetry.js';
import type { Transaction } from '../database/transaction.js';
import { Outbox } from '../messaging/outbox.js';
import { OrdersService } from '../orders/orders.service.js';
import { refundView } from './dto/refund-view.js';
import { book, isBooked, withdrawQuestion } from './money-table.js';
import { type Held, PaymentLedger } from './payment-ledger.js';
import { changeSums, type SumChange } from './payment-table.js';
import { StillOpenError } from './provider-course.js';
import type { Effect } from './providers/payment-provider.js';
import { providerOf } from './providers/payment-providers.js';
import type { Refund } from './refund.entity.js';
import { insertRefund, lockRefund, moveRefund, noteRefundRef } from './refund-table.js';

/**
 * Writes down what a provider shows of refunds, whoever heard it. A refund that succeeds takes its amount from what is
 * reserved to what is refunded; one that fails gives the reservation back, and one that fails after it had succeeded is
 * booked back. A refund that nobody asked for through this service was made in the provider's dashboard, and is booked.
 */
@Injectable()
export class RefundLedger {
  private readonly logger = new Logger(RefundLedger.name);

  constructor(
    private readonly payments: PaymentLedger,
    private readonly orders: OrdersService,
    private readonly outbox: Outbox,
  ) {}

  /**
   * Settles a refund by what the provider shows of it, and gives it as it is then.
   *
   * @param refundId undefined: not one of ours
   * @throws StillOpenError when it fits only what has not been heard yet: it must be told again
   */
  async settle(
    transaction: Transaction,
    paymentId: string,
    refundId: string | undefined,
    effects: readonly Effect[],
  ): Promise<Refund | undefined> {
    const held = await this.payments.hold(transaction, paymentId);
    if (!held) return undefined;
    let refund = refundId === undefined ? undefined : await lockRefund(transaction, paymentId, { id: refundId });
    if (refundId !== undefined && !refund) return undefined;
    for (const effect of effects) {
      if (!refund) refund = await this.applyForeign(transaction, held, effect);
      else if (isSecondEffect(refund, effect)) await this.applySecond(transaction, held, effect);
      else refund = await this.apply(transaction, held, refund, effect);
    }
    return refund;
  }

  /** Ends a refund of which nothing is to be found, or that the provider refused before it did anything. */
  async giveUp(transaction: Transaction, paymentId: string, refundId: string): Promise<Refund | undefined> {
    const held = await this.payments.hold(transaction, paymentId);
    const refund = held && (await lockRefund(transaction, paymentId, { id: refundId }));
    if (!refund || refund.status !== 'pending') return refund;
    return this.change(transaction, held, refund, 'failed', { reserved: -refund.amount });
  }

  private async apply(transaction: Transaction, held: Held, refund: Refund, effect: Effect): Promise<Refund> {
    const { amount, status } = refund;
    if (effect.state === 'pending') {
      if (status !== 'pending') return refund;
      await noteRefundRef(transaction, refund.id, effect.reference);
      return { ...refund, providerRef: effect.reference };
    }
    if (effect.state === 'succeeded') {
      if (await isBooked(transaction, held.payment, 'refund', effect.reference)) return refund;
      if (status === 'failed' && refund.providerRef === effect.reference) return refund; // told before, heard after
      await book(transaction, held.payment, 'refund', effect, { refundId: refund.id });
      const sums = { refunded: amount, reserved: status === 'pending' ? -amount : 0 };
      return this.change(transaction, held, refund, 'succeeded', sums, effect.reference);
    }
    if (status === 'pending') {
      return this.change(transaction, held, refund, 'failed', { reserved: -amount }, effect.reference);
    }
    if (status === 'failed') {
      await noteRefundRef(transaction, refund.id, effect.reference);
      return refund;
    }
    await book(transaction, held.payment, 'refund_reversal', effect, { refundId: refund.id });
    return this.change(transaction, held, refund, 'failed', { refunded: -amount });
  }

  /** Money that was given back again, by another movement than the refund's own: booked as what it is, and told. */
  private async applySecond(transaction: Transaction, held: Held, effect: Effect): Promise<void> {
    const { payment } = held;
    if (effect.state === 'succeeded' && !(await isBooked(transaction, payment, 'refund', effect.reference))) {
      const duplicate = { provider: providerOf(payment.method), operation: 'refund' } as const;
      transaction.onCommitted(() => tell('duplicate-effect', duplicate));
      this.logger.error(
        `second_refund: ${effect.reference} for payment ${payment.id}; it is booked as a refund of its own`,
      );
    }
    await this.applyForeign(transaction, held, effect);
  }

  /** Finds, or takes in, a refund that nobody asked for through this service, and settles it. */
  private async applyForeign(transaction: Transaction, held: Held, effect: Effect): Promise<Refund | undefined> {
    const { payment } = held;
    const { amount, currency, reference: providerRef } = effect;
    let refund = await lockRefund(transaction, payment.id, { providerRef });
    if (!refund && payment.status === 'succeeded') {
      await changeSums(transaction, payment.id, { reserved: amount });
      refund = await insertRefund(transaction, { id: uuidv7(), paymentId: payment.id, amount, currency, providerRef });
    }
    return refund && this.apply(transaction, held, refund, effect);
  }

  private async change(
    transaction: Transaction,
    { order }: Held,
    read: Refund,
    status: 'succeeded' | 'failed',
    sums: SumChange,
    providerRef: string | null = null,
  ): Promise<Refund> {
    const refund = await moveRefund(transaction, read, { status, providerRef });
    const payment = await changeSums(transaction, refund.paymentId, sums);
    if (!payment) throw new StillOpenError('more was given back than was paid, unless an earlier refund has failed');
    if (sums.refunded !== undefined) {
      const { refundedAmount: refunded, amount } = payment;
      const orderStatus = refunded === 0 ? 'paid' : refunded < amount ? 'partially_refunded' : 'refunded';
      await this.orders.assignPaymentStatus(transaction, order.id, orderStatus);
    }
    withdrawQuestion(transaction, refund.id);
    this.outbox.append(transaction, {
      aggregateType: 'refund',
      aggregateId: refund.id,
      aggregateVersion: refund.version,
      type: `refund.${status}`,
      data: refundView(refund),
    });
    return refund;
  }
}

/** Whether the provider did for one refund what it should have done once, and did again. */
function isSecondEffect(refund: Refund, effect: Effect): boolean {
  return refund.status === 'succeeded' && refund.providerRef !== effect.reference;
}
