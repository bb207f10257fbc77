/** A row of `sandbox.payment_intents`, with what was given back. */
export interface PaymentIntentRow {
  readonly id: string;
  readonly amount: number;
  readonly currency: string;
  readonly status: 'requires_payment_method' | 'requires_confirmation' | 'succeeded';
  readonly payment_method: string | null;
  readonly test_card: string | null;
  readonly charge: string | null;
  readonly last_payment_error: object | null;
  readonly metadata: Record<string, string>;
  readonly details: PaymentIntentDetails;
  readonly created: number;
  /** Of refunds that have not failed. */
  readonly refunded: number;
}

/** What is only handed back. */
export interface PaymentIntentDetails {
  readonly description?: string | undefined;
  readonly receipt_email?: string | undefined;
  readonly automatic_payment_methods?: object | undefined;
  readonly payment_method_types?: readonly string[] | undefined;
  readonly setup_future_usage?: string | undefined;
  readonly statement_descriptor?: string | undefined;
  readonly statement_descriptor_suffix?: string | undefined;
  readonly transfer_group?: string | undefined;
}

export const SELECT_PAYMENT_INTENT = `
  SELECT t.*, coalesce((SELECT sum(r.amount) FROM sandbox.refunds r
                        WHERE r.payment_intent = t.id AND r.status IN ('pending', 'succeeded')), 0)::bigint AS refunded
  FROM sandbox.payment_intents t`;

/** https://docs.stripe.com/api/payment_intents/object */
export function renderPaymentIntent(row: PaymentIntentRow): object {
  const { details } = row;
  return {
    id: row.id,
    object: 'payment_intent',
    amount: row.amount,
    amount_capturable: 0,
    amount_details: { tip: {} },
    amount_received: row.status === 'succeeded' ? row.amount : 0,
    application: null,
    application_fee_amount: null,
    automatic_payment_methods: details.automatic_payment_methods ?? null,
    canceled_at: null,
    cancellation_reason: null,
    capture_method: 'automatic_async',
    client_secret: `${row.id}_secret_sandbox`,
    confirmation_method: 'automatic',
    created: row.created,
    currency: row.currency,
    customer: null,
    description: details.description ?? null,
    last_payment_error: row.last_payment_error,
    latest_charge: row.charge,
    livemode: false,
    metadata: row.metadata,
    next_action: null,
    on_behalf_of: null,
    payment_method: row.status === 'requires_payment_method' ? null : row.payment_method,
    payment_method_options: { card: { installments: null, mandate_options: null, network: null } },
    payment_method_types: details.payment_method_types ?? ['card'],
    processing: null,
    receipt_email: details.receipt_email ?? null,
    review: null,
    setup_future_usage: details.setup_future_usage ?? null,
    shipping: null,
    source: null,
    statement_descriptor: details.statement_descriptor ?? null,
    statement_descriptor_suffix: details.statement_descriptor_suffix ?? null,
    status: row.status,
    transfer_data: null,
    transfer_group: details.transfer_group ?? null,
  };
}

/** https://docs.stripe.com/api/charges/object */
export function renderCharge(row: PaymentIntentRow): object {
  const paid = row.status === 'succeeded';
  return {
    id: row.charge,
    object: 'charge',
    amount: row.amount,
    amount_captured: paid ? row.amount : 0,
    amount_refunded: row.refunded,
    captured: paid,
    created: row.created,
    currency: row.currency,
    description: row.details.description ?? null,
    disputed: false,
    failure_code: paid ? null : 'card_declined',
    livemode: false,
    metadata: row.metadata,
    paid,
    payment_intent: row.id,
    payment_method: row.payment_method,
    receipt_email: row.details.receipt_email ?? null,
    refunded: row.refunded === row.amount,
    status: paid ? 'succeeded' : 'failed',
  };
}

/** https://docs.stripe.com/api/payment_methods/object, as it stands inside errors. */
export function renderPaymentMethod(id: string): object {
  return { id, object: 'payment_method', type: 'card', customer: null, livemode: false, metadata: {} };
}
