import type { PaymentMethod } from '../payment.entity.js';
import type { PaymentProvider } from './payment-provider.js';

/** Who moves the money of a payment method. */
export function providerOf(method: PaymentMethod): PaymentProvider['name'] {
  return method === 'card' ? 'stripe' : 'bank';
}

/** The providers of this process. */
export class PaymentProviders {
  constructor(
    readonly card: PaymentProvider,
    readonly bank: PaymentProvider,
    /** Milliseconds, the longest that one call takes. */
    readonly timeout: number,
  ) {}

  for(method: PaymentMethod): PaymentProvider {
    return method === 'card' ? this.card : this.bank;
  }

  get all(): readonly PaymentProvider[] {
    return [this.card, this.bank];
  }
}
