import type {
  ChargeOrder,
  PaymentProvider,
  ProviderAnswer,
  RefundOrder,
} from '../../../src/payments/providers/payment-provider.js';
import { BankProvider } from '../../../src/payments/providers/bank-provider.js';
import { createStripe } from '../../../src/payments/providers/stripe-client.js';
import { StripeProvider } from '../../../src/payments/providers/stripe-provider.js';

export const TENANT = '0193f3a0-0000-7000-8000-00000000000a';
export const PAYMENT = '0193f3a0-0000-7000-8000-00000000000b';
export const REFUND = '0193f3a0-0000-7000-8000-00000000000c';
export const OPERATION = '0193f3a0-0000-7000-8000-00000000000d';
export const CREATED = 1_764_460_800;

const common = { tenantId: TENANT, paymentId: PAYMENT, operationId: OPERATION, currency: 'EUR' };

export const CHARGE: ChargeOrder = { ...common, amount: 1_999, key: 'child-key-1', source: 'pm_card_visa' };
export const GIVE_BACK: RefundOrder = {
  ...common,
  amount: 500,
  key: 'child-key-2',
  refundId: REFUND,
  chargeRef: 'pi_1',
};

/** A payment intent as Stripe shows that of CHARGE. */
export function paymentIntent(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: 'pi_1',
    object: 'payment_intent',
    amount: 1_999,
    amount_received: 1_999,
    currency: 'eur',
    status: 'succeeded',
    created: CREATED,
    metadata: { tenant: TENANT, payment: PAYMENT, operation: OPERATION },
    last_payment_error: null,
    cancellation_reason: null,
    ...changes,
  };
}

/** A refund as Stripe shows that of GIVE_BACK. */
export function refund(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: 're_1',
    object: 'refund',
    amount: 500,
    currency: 'eur',
    status: 'succeeded',
    created: CREATED,
    payment_intent: 'pi_1',
    metadata: { tenant: TENANT, payment: PAYMENT, refund: REFUND, operation: OPERATION },
    ...changes,
  };
}

/** A transfer as the bank shows that of CHARGE. */
export function transfer(changes: Record<string, unknown> = {}): Record<string, unknown> {
  const createdAt = new Date(CREATED * 1_000).toISOString();
  return { id: 'tr_1', reference: PAYMENT, amount: 1_999, currency: 'EUR', status: 'succeeded', createdAt, ...changes };
}

export function stripeAt(apiBase: string, timeout = 5_000): StripeProvider {
  return new StripeProvider(createStripe({ secretKey: 'sk_test_1', apiBase, timeout }));
}

export function bankAt(apiBase: string, timeout = 5_000): BankProvider {
  return new BankProvider({ apiBase, timeout });
}

/** Every call that moves money, and a body that says it did. */
export const MOVES: [string, (apiBase: string, timeout?: number) => () => Promise<ProviderAnswer>, object][] = [
  ['a charge at Stripe', (...at) => callOf(stripeAt(...at), 'charge'), paymentIntent()],
  ['a refund at Stripe', (...at) => callOf(stripeAt(...at), 'refund'), refund()],
  ['a charge at the bank', (...at) => callOf(bankAt(...at), 'charge'), transfer()],
  [
    'a refund at the bank',
    (...at) => callOf(bankAt(...at), 'refund'),
    transfer({ id: 'tr_2', reference: REFUND, amount: 500, refundOf: 'pi_1' }),
  ],
];

function callOf(provider: PaymentProvider, kind: 'charge' | 'refund'): () => Promise<ProviderAnswer> {
  return kind === 'charge' ? () => provider.charge(CHARGE) : () => provider.refund(GIVE_BACK);
}
