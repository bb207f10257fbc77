import { Injectable, Logger } from '@nestjs/common';
import { tell } from '../config/telemetry.js';
import type { Transaction } from '../database/transaction.js';
import { Outbox } from '../messaging/outbox.js';
import type { Order } from '../orders/order.entity.js';
import { OrdersService } from '../orders/orders.service.js';
import { paymentView } from './dto/payment-view.js';
import { askForReview, book, isBooked, oweSurplus, withdrawQuestion } from './money-table.js';
import type { Payment } from './payment.entity.js';
import { findPayment, lockPayment, movePayment, notePaymentRef } from './payment-table.js';
import type { Effect } from './providers/payment-provider.js';
import { providerOf } from './providers/payment-providers.js';

/** A payment and its order, their rows held until the end of the transaction. */
export interface Held {
  readonly order: Order;
  readonly payment: Payment;
}

/** What succeeded comes before what is open, and that before what came to nothing. */
const WEIGHT: Readonly<Record<Effect['state'], number>> = { succeeded: 0, pending: 1, declined: 2, failed: 3 };

/**
 * Writes down what a provider shows of a payment, whoever heard it: the reply to the call, a webhook, the reconciler.
 * Facts come late, twice and out of order: what is written already is success and no change, and what contradicts an
 * earlier fact is booked, never ignored. Money that moved has its movement, and a change of state its event, in the
 * transaction at hand.
 */
@Injectable()
export class PaymentLedger {
  private readonly logger = new Logger(PaymentLedger.name);

  constructor(
    private readonly orders: OrdersService,
    private readonly outbox: Outbox,
  ) {}

  /**
   * Takes the rows of a payment: its order's first, as everybody does.
   *
   * @returns `undefined` when the tenant has no such payment
   */
  async hold(transaction: Transaction, paymentId: string): Promise<Held | undefined> {
    const seen = await findPayment(queryOf(transaction), transaction.tenantId, paymentId);
    if (!seen) return undefined;
    const order = await this.orders.lock(transaction, seen.orderId);
    const payment = await lockPayment(transaction, paymentId);
    return { order, payment: payment! };
  }

  /** Settles a payment by what the provider shows of it, and gives it as it is then. */
  async settle(transaction: Transaction, paymentId: string, effects: readonly Effect[]): Promise<Payment | undefined> {
    let held = await this.hold(transaction, paymentId);
    for (const effect of [...effects].sort((one, other) => WEIGHT[one.state] - WEIGHT[other.state])) {
      held = held && (await this.apply(transaction, held, effect));
    }
    return held?.payment;
  }

  /** Ends a payment of which nothing is to be found. What is settled already stays as it is. */
  async giveUp(transaction: Transaction, paymentId: string): Promise<Payment | undefined> {
    const held = await this.hold(transaction, paymentId);
    return held && (await this.end(transaction, held, 'failed')).payment;
  }

  /** Ends a payment that the provider refused before it did anything. */
  async refuse(transaction: Transaction, paymentId: string, code: string): Promise<Payment | undefined> {
    const held = await this.hold(transaction, paymentId);
    return held && (await this.end(transaction, held, 'declined', { declineCode: code })).payment;
  }

  private async apply(transaction: Transaction, held: Held, effect: Effect): Promise<Held> {
    const { payment } = held;
    switch (effect.state) {
      case 'succeeded':
        return this.charged(transaction, held, effect);
      case 'pending':
        if (payment.status === 'pending') await notePaymentRef(transaction, payment.id, effect.reference);
        return held;
      case 'declined':
        return this.end(transaction, held, 'declined', {
          providerRef: effect.reference,
          declineCode: effect.code ?? 'declined',
        });
      case 'failed':
        return this.failed(transaction, held, effect);
    }
  }

  private async charged(transaction: Transaction, held: Held, effect: Effect): Promise<Held> {
    const { order, payment } = held;
    if (await isBooked(transaction, payment, 'charge', effect.reference)) return held;
    if (effect.amount !== payment.amount || effect.currency !== payment.currency) {
      const detail = `The provider shows ${effect.reference} of ${effect.amount} ${effect.currency}; the payment is of ${payment.amount} ${payment.currency}.`;
      await askForReview(transaction, payment.id, { subjectId: payment.id, reason: 'amount-differs', detail });
      return held;
    }
    if (payment.status !== 'pending' && !mayStillPay(held)) {
      const duplicate = { provider: providerOf(payment.method), operation: 'charge' } as const;
      transaction.onCommitted(() => tell('duplicate-effect', duplicate));
      this.logger.error(`surplus_charge: ${effect.reference} for payment ${payment.id}; it is given back`);
      await book(transaction, payment, 'charge', effect, { surplus: true });
      await oweSurplus(transaction, payment, effect);
      return held;
    }
    await book(transaction, payment, 'charge', effect);
    const succeeded = await movePayment(transaction, payment, { status: 'succeeded', providerRef: effect.reference });
    await this.orders.closeFor(transaction, order.id, payment.id);
    await this.orders.assignPaymentStatus(transaction, order.id, 'paid');
    this.tell(transaction, 'payment.succeeded', succeeded);
    return { order: { ...order, status: 'paid', livePaymentId: payment.id }, payment: succeeded };
  }

  /** A charge that failed after all. Of a payment that has succeeded by it that is a contradiction for a person. */
  private async failed(transaction: Transaction, held: Held, effect: Effect): Promise<Held> {
    const { payment } = held;
    if (payment.status === 'succeeded' && (await isBooked(transaction, payment, 'charge', effect.reference))) {
      const detail = `The provider shows ${effect.reference} as failed (${effect.code ?? 'no code'}), which had succeeded.`;
      await askForReview(transaction, payment.id, { subjectId: payment.id, reason: 'failed-after-success', detail });
      return held;
    }
    return this.end(transaction, held, 'failed', { providerRef: effect.reference });
  }

  private async end(
    transaction: Transaction,
    held: Held,
    status: 'declined' | 'failed',
    by: Partial<Pick<Payment, 'providerRef' | 'declineCode'>> = {},
  ): Promise<Held> {
    if (held.payment.status !== 'pending') return held;
    const payment = await movePayment(transaction, held.payment, { status, ...by });
    await this.orders.reopen(transaction, held.order.id);
    this.tell(transaction, `payment.${status}`, payment);
    return { order: { ...held.order, livePaymentId: null }, payment };
  }

  private tell(transaction: Transaction, type: string, payment: Payment): void {
    withdrawQuestion(transaction, payment.id);
    const { receiptEmail } = payment;
    const receipt = type === 'payment.succeeded' && receiptEmail !== null ? { receiptEmail } : {};
    this.outbox.append(transaction, {
      aggregateType: 'payment',
      aggregateId: payment.id,
      aggregateVersion: payment.version,
      type,
      data: { ...paymentView(payment), ...receipt },
    });
  }
}

/** Whether money that came after its payment was given up can still be the order's: it waits for just that. */
function mayStillPay({ order, payment }: Held): boolean {
  return (
    payment.status !== 'succeeded' &&
    order.status === 'pending' &&
    order.livePaymentId === null &&
    order.totalAmount === payment.amount &&
    order.currency === payment.currency
  );
}

/** A transaction as the look-ups take it that also serve plain reads. */
export function queryOf(transaction: Transaction): { query<T>(text: string, values?: unknown[]): Promise<T> } {
  return { query: <T>(text: string, values?: unknown[]) => transaction.query(text, values) as Promise<T> };
}
