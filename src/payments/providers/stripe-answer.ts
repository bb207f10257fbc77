import Stripe from 'stripe';
import { CallFailedError } from './http-caller.js';
import type { ProviderAnswer } from './payment-provider.js';
import { chargeEffect, type PaymentIntent, readPaymentIntent } from './stripe-objects.js';

/** What a client of this service chooses of a call to Stripe; a 400 about anything else is of our making. */
const SENT_BY_CLIENT = ['payment_method', 'amount', 'currency'];
/** Refusals of the same things that name no parameter: https://docs.stripe.com/error-codes */
const ABOUT_WHAT_CLIENT_SENT = [
  'amount_too_large',
  'amount_too_small',
  'charge_already_refunded',
  'charge_exceeds_source_limit',
  'charge_exceeds_transaction_limit',
  'invalid_charge_amount',
  'payment_method_currency_mismatch',
];

/**
 * What a failed call to Stripe proves, by the table in the contract. Only what is proven counts: everything that the
 * table does not name is unknown, or a fault that leaves the payment open.
 *
 * @param isOurs whether a payment intent is the one that the call was to make
 */
export function answerOfError(error: unknown, isOurs: (intent: PaymentIntent) => boolean): ProviderAnswer {
  if (!(error instanceof Stripe.errors.StripeError)) return { kind: 'unknown', reason: String(error) };
  const { statusCode: status, detail } = error;
  if (detail instanceof CallFailedError) {
    return { kind: detail.sent ? 'unknown' : 'not-happened', reason: detail.reason };
  }
  const reason = `${status ?? 'no status'} ${error.message}`;
  // 408: a proxy that has lost patience; what stands behind it may be working still. 409: it is, it says so.
  if (status === undefined || status < 400 || status >= 500 || status === 408 || status === 409) {
    return { kind: 'unknown', reason };
  }
  if (status === 429) return { kind: 'not-happened', reason };
  if (status === 402 && error.rawType === 'card_error') return declined(error, reason, isOurs);
  if (status === 400 && error.rawType === 'invalid_request_error' && isAboutWhatClientSent(error)) {
    return { kind: 'refused', code: word(error.code) ?? `invalid_${error.param}` };
  }
  return { kind: 'fault', code: faultCode(error, status), reason };
}

/** The refused intent stays at Stripe, and the error carries it. Without it nothing was made: there is no trace to keep. */
function declined(
  error: Stripe.errors.StripeError,
  reason: string,
  isOurs: (intent: PaymentIntent) => boolean,
): ProviderAnswer {
  const code = word(error.decline_code) ?? word(error.code) ?? 'card_declined';
  if (!error.payment_intent) return { kind: 'refused', code };
  const intent = read(error.payment_intent);
  if (!intent || !isOurs(intent)) return { kind: 'unknown', reason: `${reason}, with another payment intent` };
  if (['succeeded', 'processing', 'requires_capture'].includes(intent.status)) {
    return { kind: 'unknown', reason: `${reason}, but the payment intent is ${intent.status}` };
  }
  return { kind: 'effect', effect: { ...chargeEffect(intent), state: 'declined', code } };
}

function read(json: unknown): PaymentIntent | undefined {
  try {
    return readPaymentIntent(json);
  } catch {
    return undefined;
  }
}

function isAboutWhatClientSent({ param, code }: Stripe.errors.StripeError): boolean {
  return SENT_BY_CLIENT.includes(word(param) ?? '') || ABOUT_WHAT_CLIENT_SENT.includes(word(code) ?? '');
}

function faultCode(error: Stripe.errors.StripeError, status: number): string {
  if (status === 401) return 'authentication';
  if (status === 403) return 'permission';
  if (error.rawType === 'idempotency_error') return 'idempotency_error';
  return word(error.code) ?? word(error.rawType) ?? `http_${status}`;
}

/** Whatever the types say, this came over the wire. */
function word(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
