import { z } from 'zod';
import type { Effect, ProviderFact } from './payment-provider.js';

/**
 * What is read of Stripe's objects, and what it means. Answers, look-ups and webhooks go through the same functions, so
 * that a payment is the same whichever way it was heard of.
 */
const text = z.string().min(1);
const code = text.nullish().catch(undefined);
const metadata = z.record(z.string(), z.string()).nullish();
const seconds = z.int().nonnegative();

/** What every object has, those that others have made in the same account included. */
const anything = z.looseObject({ id: text, metadata });

const paymentIntent = z.looseObject({
  id: text,
  object: z.literal('payment_intent'),
  amount: z.int().positive(),
  currency: text,
  status: text,
  created: seconds,
  metadata,
  last_payment_error: z.looseObject({ code, decline_code: code }).nullish(),
  cancellation_reason: code,
});

const refund = z.looseObject({
  id: text,
  object: z.literal('refund'),
  amount: z.int().positive(),
  currency: text,
  status: text.nullish(),
  created: seconds,
  metadata,
  payment_intent: z.union([text, anything]).nullish(),
  failure_reason: code,
});

const page = z.object({ data: z.array(anything), has_more: z.boolean() });

const event = z.looseObject({ id: text, type: text, data: z.looseObject({ object: z.looseObject({}) }) });

export type StripeObject = z.infer<typeof anything>;
export type PaymentIntent = z.infer<typeof paymentIntent>;
export type Refund = z.infer<typeof refund>;

/** Throw ZodError where it is none. */
export const readPaymentIntent = (json: unknown): PaymentIntent => paymentIntent.parse(json);
export const readRefund = (json: unknown): Refund => refund.parse(json);
export const readPage = (json: unknown): z.infer<typeof page> => page.parse(json);
export const readEvent = (json: unknown): z.infer<typeof event> => event.parse(json);
export const readObject = (json: unknown): StripeObject => anything.parse(json);

/** Whose object it is, as its metadata says; undefined where it was not made by this service. */
export interface Owner {
  readonly tenantId: string;
  readonly paymentId: string;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Others may write metadata under the same names: what is no id of ours is not ours. */
export function ownerOf({ metadata }: Pick<StripeObject, 'metadata'>): Owner | undefined {
  const { tenant, payment } = metadata ?? {};
  return isId(tenant) && isId(payment) ? { tenantId: tenant, paymentId: payment } : undefined;
}

function isId(value: string | undefined): value is string {
  return value !== undefined && UUID.test(value);
}

export function chargeEffect(intent: PaymentIntent): Effect {
  return { reference: intent.id, ...chargeOutcome(intent), ...moneyOf(intent) };
}

/**
 * `processing` is on its way. `requires_action`, `requires_confirmation` and `requires_capture` are asked for nowhere in
 * this service, but a hand at the dashboard can bring an intent there, and out of it: the money has not moved and still
 * may, so it is as pending as the other, and so is what a later version of the API may add.
 */
function chargeOutcome(intent: PaymentIntent): Pick<Effect, 'state' | 'code'> {
  const { status, last_payment_error: error } = intent;
  if (status === 'succeeded') return { state: 'succeeded' };
  if (status === 'canceled') return { state: 'failed', code: intent.cancellation_reason ?? 'canceled' };
  if (status === 'requires_payment_method' && error) {
    return { state: 'declined', code: error.decline_code ?? error.code ?? 'card_declined' };
  }
  return { state: 'pending' };
}

export function refundEffect(refund: Refund): Effect {
  return { reference: refund.id, ...refundOutcome(refund), ...moneyOf(refund) };
}

function refundOutcome({ status, failure_reason: reason }: Refund): Pick<Effect, 'state' | 'code'> {
  if (status === 'succeeded') return { state: 'succeeded' };
  if (status === 'failed' || status === 'canceled') return { state: 'failed', code: reason ?? status };
  return { state: 'pending' };
}

function moneyOf(movement: { amount: number; currency: string; created: number }): Omit<Effect, 'reference' | 'state'> {
  const { amount, currency, created } = movement;
  return { amount, currency: currency.toUpperCase(), createdAt: new Date(created * 1_000) };
}

export function chargeFact(intent: PaymentIntent, owner: Owner): ProviderFact {
  return { kind: 'charge', ...owner, effect: chargeEffect(intent) };
}

export function refundFact(refund: Refund, owner: Owner): ProviderFact {
  const refundId = refund.metadata?.refund;
  const { payment_intent: intent } = refund;
  const chargeRef = typeof intent === 'string' ? intent : intent?.id;
  return {
    kind: 'refund',
    ...owner,
    ...(isId(refundId) && { refundId }),
    ...(chargeRef !== undefined && { chargeRef }),
    effect: refundEffect(refund),
  };
}
