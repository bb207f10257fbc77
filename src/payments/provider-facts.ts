import { Injectable, Logger } from '@nestjs/common';
import type { Transaction } from '../database/transaction.js';
import { UUID } from '../http/uuid-param.pipe.js';
import { PaymentLedger } from './payment-ledger.js';
import type { ProviderFact } from './providers/payment-provider.js';
import { RefundLedger } from './refund-ledger.js';
import { SurplusCharges } from './surplus-charges.js';

/** Writes down what a provider tells without being asked about one payment: webhooks, and lists of what was made. */
@Injectable()
export class ProviderFacts {
  private readonly logger = new Logger(ProviderFacts.name);

  constructor(
    private readonly payments: PaymentLedger,
    private readonly refunds: RefundLedger,
    private readonly surplus: SurplusCharges,
  ) {}

  /** Whether the ids that the provider keeps can be ours: others use the same account, too. */
  static isOurs({ tenantId, paymentId, refundId }: ProviderFact): boolean {
    return [tenantId, paymentId, refundId].every((id) => id === undefined || UUID.test(id));
  }

  /** @throws StillOpenError when it fits only what has not been heard yet: it must be told again */
  async apply(transaction: Transaction, fact: ProviderFact): Promise<void> {
    const { kind, tenantId, paymentId, refundId, chargeRef, effect } = fact;
    if (kind === 'charge') {
      const payment = await this.payments.settle(transaction, paymentId, [effect]);
      // Another service on the same account; or ours, before its database was restored to an earlier point.
      if (!payment && effect.state === 'succeeded')
        this.logger.warn(`effect_without_payment: ${effect.reference} of tenant ${tenantId}, payment ${paymentId}`);
      return;
    }
    const surplus = refundId !== undefined ? { id: refundId } : chargeRef !== undefined ? { chargeRef } : undefined;
    if (surplus && (await this.surplus.settle(transaction, paymentId, surplus, effect))) return;
    await this.refunds.settle(transaction, paymentId, refundId, [effect]);
  }
}
