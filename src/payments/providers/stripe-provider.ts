import type Stripe from 'stripe';
import type {
  ChargeOrder,
  ChargeQuery,
  Effect,
  PaymentProvider,
  ProviderAnswer,
  ProviderFact,
  RefundOrder,
  RefundQuery,
} from './payment-provider.js';
import { answerOfError } from './stripe-answer.js';
import { StripeLedger } from './stripe-ledger.js';
import {
  chargeEffect,
  chargeFact,
  type PaymentIntent,
  readPaymentIntent,
  readRefund,
  type Refund,
  refundEffect,
  refundFact,
} from './stripe-objects.js';

/**
 * Card payments at Stripe.
 *
 * @example
 * const stripe = createStripe({ secretKey, apiBase, timeout: settings.payments.providerTimeout });
 * const answer = await new StripeProvider(stripe).charge(order);
 */
export class StripeProvider implements PaymentProvider {
  readonly name = 'stripe';
  /** https://docs.stripe.com/api/idempotent_requests: keys may be removed once they are at least 24 hours old. */
  readonly keyWindow = 24 * 60 * 60 * 1_000;

  private readonly ledger: StripeLedger;

  /** @param stripe made by `createStripe`: one that retries by itself would break the port's promise */
  constructor(private readonly stripe: Stripe) {
    this.ledger = new StripeLedger(stripe);
  }

  async charge(order: ChargeOrder): Promise<ProviderAnswer> {
    if (order.key === '') return KEYLESS;
    const isOurs = (intent: PaymentIntent): boolean => isChargeOf(order, intent);
    try {
      const made: unknown = await this.stripe.paymentIntents.create(
        {
          amount: order.amount,
          currency: order.currency.toLowerCase(),
          payment_method: order.source,
          confirm: true,
          // Nobody is there to act: a payment that needs it is declined, with `authentication_required`.
          error_on_requires_action: true,
          automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
          metadata: { tenant: order.tenantId, payment: order.paymentId, operation: order.operationId },
        },
        { idempotencyKey: order.key },
      );
      const intent = readPaymentIntent(made);
      return isOurs(intent) ? { kind: 'effect', effect: chargeEffect(intent) } : ANOTHER;
    } catch (error) {
      return answerOfError(error, isOurs);
    }
  }

  async refund(order: RefundOrder): Promise<ProviderAnswer> {
    if (order.key === '') return KEYLESS;
    try {
      const made: unknown = await this.stripe.refunds.create(
        {
          payment_intent: order.chargeRef,
          amount: order.amount,
          metadata: {
            tenant: order.tenantId,
            payment: order.paymentId,
            refund: order.refundId,
            operation: order.operationId,
          },
        },
        { idempotencyKey: order.key },
      );
      const refund = readRefund(made);
      return isRefundOf(order, refund) ? { kind: 'effect', effect: refundEffect(refund) } : ANOTHER;
    } catch (error) {
      return answerOfError(error, () => false);
    }
  }

  async findCharges({ tenantId, paymentId, since }: ChargeQuery): Promise<Effect[]> {
    const found: Effect[] = [];
    for await (const { intent, owner } of this.ledger.paymentIntentsSince(since)) {
      if (owner.tenantId === tenantId && owner.paymentId === paymentId) found.push(chargeEffect(intent));
    }
    return found.reverse();
  }

  async findRefunds({ tenantId, refundId, chargeRef, reference }: RefundQuery): Promise<Effect[]> {
    const found: Effect[] = [];
    for await (const refund of this.ledger.refundsOf(chargeRef)) {
      const { tenant, refund: id } = refund.metadata ?? {};
      if ((tenant === tenantId && id === refundId) || refund.id === reference) found.push(refundEffect(refund));
    }
    return found.reverse();
  }

  async *madeSince(time: Date): AsyncGenerator<ProviderFact> {
    for await (const { intent, owner } of this.ledger.paymentIntentsSince(time)) yield chargeFact(intent, owner);
    for await (const { refund, owner } of this.ledger.refundsSince(time)) yield refundFact(refund, owner);
  }
}

/** The SDK would make a key up, and Stripe would not recognise the repetition. */
const KEYLESS: ProviderAnswer = { kind: 'fault', code: 'key_missing', reason: 'A call without a key is never sent' };

/** Something has happened, and not what was asked for. */
const ANOTHER: ProviderAnswer = { kind: 'unknown', reason: 'The answer is about another movement' };

function isChargeOf(order: ChargeOrder, intent: PaymentIntent): boolean {
  const { tenant, payment } = intent.metadata ?? {};
  return tenant === order.tenantId && payment === order.paymentId && isSameMoney(order, intent);
}

function isRefundOf(order: RefundOrder, refund: Refund): boolean {
  const { payment_intent: intent, metadata } = refund;
  const chargeRef = typeof intent === 'string' ? intent : intent?.id;
  return chargeRef === order.chargeRef && metadata?.refund === order.refundId && isSameMoney(order, refund);
}

function isSameMoney(order: ChargeOrder | RefundOrder, made: { amount: number; currency: string }): boolean {
  return made.amount === order.amount && made.currency.toUpperCase() === order.currency.toUpperCase();
}
