import { recordEffect } from '../ledger.js';
import { json, type Reply } from '../reply.js';
import type { Sql } from '../sandbox-database.js';
import { type Cause, recordEvent } from '../webhooks/events.js';
import { checkChargeAmount, checkCurrency } from './currencies.js';
import type { Form } from './form.js';
import { newId } from './ids.js';
import { type Listing, list } from './list.js';
import { Parameters } from './parameters.js';
import {
  type PaymentIntentDetails,
  type PaymentIntentRow,
  renderCharge,
  renderPaymentIntent,
  renderPaymentMethod,
  SELECT_PAYMENT_INTENT,
} from './payment-intent-view.js';
import { badParameter, noSuch, stripeError } from './stripe-refusal.js';
import { findTestCard, type TestCard } from './test-cards.js';

const PARAMETERS = [
  ...['amount', 'currency', 'payment_method', 'confirm', 'error_on_requires_action', 'metadata', 'description'],
  ...['automatic_payment_methods', 'payment_method_types', 'receipt_email', 'return_url', 'off_session'],
  ...['setup_future_usage', 'statement_descriptor', 'statement_descriptor_suffix', 'transfer_group'],
  ...['capture_method', 'confirmation_method', 'allowed_payment_method_types'],
];

interface NewPaymentIntent {
  readonly amount: number;
  readonly currency: string;
  readonly paymentMethod: string | undefined;
  readonly confirm: boolean;
  readonly metadata: Record<string, string>;
  readonly details: PaymentIntentDetails;
}

/** @throws StripeRefusal for parameters that could never do */
export function readNewPaymentIntent(form: Form): NewPaymentIntent {
  const parameters = new Parameters(form, PARAMETERS);
  parameters.required('amount');
  const currency = checkCurrency(parameters.required('currency'));
  const amount = parameters.integer('amount', 0, Number.MAX_SAFE_INTEGER)!;
  checkChargeAmount(amount, currency);
  const confirm = parameters.boolean('confirm');
  parameters.boolean('error_on_requires_action');
  parameters.boolean('off_session');
  parameters.oneOf('capture_method', ['automatic', 'automatic_async']);
  parameters.oneOf('confirmation_method', ['automatic']);
  const paymentMethod = parameters.string('payment_method');
  if (confirm && paymentMethod === undefined) {
    const message = `You cannot confirm this PaymentIntent because it's missing a payment method.`;
    throw badParameter('payment_method', message, 'parameter_missing');
  }
  return {
    amount,
    currency,
    paymentMethod,
    confirm,
    metadata: parameters.metadata(),
    details: readDetails(parameters),
  };
}

function readDetails(parameters: Parameters): PaymentIntentDetails {
  return {
    ...readMethods(parameters),
    description: parameters.string('description'),
    receipt_email: parameters.string('receipt_email'),
    setup_future_usage: parameters.oneOf('setup_future_usage', ['off_session', 'on_session']),
    statement_descriptor: parameters.string('statement_descriptor'),
    statement_descriptor_suffix: parameters.string('statement_descriptor_suffix'),
    transfer_group: parameters.string('transfer_group'),
  };
}

function readMethods(parameters: Parameters): PaymentIntentDetails {
  // Newer versions of the API call them allowed.
  const allowed = parameters.strings('allowed_payment_method_types');
  const types = parameters.strings('payment_method_types') ?? allowed;
  const automatic = parameters.object('automatic_payment_methods', ['enabled', 'allow_redirects']);
  parameters.string('return_url');
  if (!automatic) return { payment_method_types: types };
  if (types) {
    const message = 'You may only specify one of these parameters: automatic_payment_methods, payment_method_types.';
    throw badParameter('payment_method_types', message, 'parameters_exclusive');
  }
  const enabled = automatic.boolean('enabled');
  const redirects = automatic.oneOf('allow_redirects', ['always', 'never']) ?? 'always';
  return { automatic_payment_methods: { allow_redirects: redirects, enabled } };
}

export async function createPaymentIntent(sql: Sql, wanted: NewPaymentIntent, cause: Cause): Promise<Reply> {
  const { paymentMethod, confirm } = wanted;
  const card = paymentMethod === undefined ? undefined : findTestCard(paymentMethod);
  if (paymentMethod !== undefined && !card) return noSuch('PaymentMethod', paymentMethod, 'payment_method', 400).reply;
  if (!card || !confirm) {
    const status = card ? 'requires_confirmation' : 'requires_payment_method';
    return json(200, renderPaymentIntent(await insert(sql, wanted, { status })));
  }
  return card.charge === 'succeeds' ? succeed(sql, wanted, cause) : decline(sql, wanted, card, cause);
}

async function succeed(sql: Sql, wanted: NewPaymentIntent, cause: Cause): Promise<Reply> {
  const row = await insert(sql, wanted, { status: 'succeeded', charge: newId('ch') });
  await recordEffect(sql, {
    operation: 'payment_intents.create',
    reference: row.id,
    amount: row.amount,
    currency: row.currency,
    idempotencyKey: cause.idempotencyKey,
  });
  const view = renderPaymentIntent(row);
  await recordEvent(sql, 'payment_intent.succeeded', view, cause);
  return json(200, view);
}

type Decline = Extract<TestCard, { charge: 'declines' }>;

/** The PaymentIntent is there afterwards, and says why it is not paid. */
async function decline(sql: Sql, wanted: NewPaymentIntent, card: Decline, cause: Cause): Promise<Reply> {
  const charge = newId('ch');
  const method = newId('pm');
  const error = {
    type: 'card_error',
    code: card.code,
    decline_code: card.declineCode,
    message: card.message,
    charge,
    payment_method: renderPaymentMethod(method),
  } as const;
  const row = await insert(sql, wanted, { status: 'requires_payment_method', charge, method, error });
  const view = renderPaymentIntent(row);
  await recordEvent(sql, 'payment_intent.payment_failed', view, cause);
  return stripeError(402, { ...error, payment_intent: view });
}

interface Outcome {
  readonly status: PaymentIntentRow['status'];
  readonly charge?: string;
  readonly method?: string;
  readonly error?: object;
}

async function insert(sql: Sql, wanted: NewPaymentIntent, outcome: Outcome): Promise<PaymentIntentRow> {
  const card = wanted.paymentMethod ?? null;
  const method = outcome.method ?? (card && newId('pm'));
  const [row] = await sql.query<PaymentIntentRow>(
    `INSERT INTO sandbox.payment_intents
       (id, amount, currency, status, payment_method, test_card, charge, last_payment_error, metadata, details, created)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, floor(extract(epoch FROM statement_timestamp())))
     RETURNING *, 0::bigint AS refunded`,
    [
      newId('pi'),
      wanted.amount,
      wanted.currency,
      outcome.status,
      method,
      card,
      outcome.charge ?? null,
      outcome.error ? JSON.stringify(outcome.error) : null,
      JSON.stringify(wanted.metadata),
      JSON.stringify(wanted.details),
    ],
  );
  return row!;
}

export async function retrievePaymentIntent(sql: Sql, id: string): Promise<Reply> {
  const [row] = await sql.query<PaymentIntentRow>(`${SELECT_PAYMENT_INTENT} WHERE t.id = $1`, [id]);
  if (!row) throw noSuch('payment_intent', id, 'intent', 404);
  return json(200, renderPaymentIntent(row));
}

export async function retrieveCharge(sql: Sql, id: string): Promise<Reply> {
  const [row] = await sql.query<PaymentIntentRow>(`${SELECT_PAYMENT_INTENT} WHERE t.charge = $1`, [id]);
  if (!row) throw noSuch('charge', id, 'id', 404);
  return json(200, renderCharge(row));
}

const LISTING: Listing<PaymentIntentRow> = {
  url: '/v1/payment_intents',
  kind: 'payment_intent',
  table: 'sandbox.payment_intents',
  select: SELECT_PAYMENT_INTENT,
  filters: {},
  render: renderPaymentIntent,
};

export function listPaymentIntents(sql: Sql, query: string): Promise<Reply> {
  return list(sql, LISTING, query);
}
