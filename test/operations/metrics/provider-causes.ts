import { randomUUID } from 'node:crypto';
import { SIGNAL_WORDS } from '../../../src/config/telemetry.js';
import { MeasuredProvider } from '../../../src/payments/providers/measured-provider.js';
import { bankAt, CHARGE, GIVE_BACK, PAYMENT, REFUND, stripeAt, transfer } from '../../payments/providers/movements.js';
import { DECLINED_CARD, TRANSFER } from '../../payments/paying.js';
import { calls, type Cause, cause, DELIVERED, requests, series } from './cause.js';
import type { MeteredApp } from './metered-app.js';

type CallOutcome = (typeof SIGNAL_WORDS.callOutcome)[number];

/** What a bank answers to a transfer so that a call ends in that way. */
const ANSWERS: Readonly<Record<CallOutcome, readonly [status: number, body: object]>> = {
  succeeded: [201, { status: 'succeeded' }],
  pending: [201, { status: 'pending' }],
  declined: [402, { error: { code: 'insufficient_funds' } }],
  failed: [201, { status: 'failed' }],
  refused: [400, { error: { code: 'amount_invalid', param: 'amount' } }],
  not_happened: [429, {}],
  unknown: [500, {}],
  fault: [401, {}],
};

const REFUND_TRANSFER = { id: 'tr_2', reference: REFUND, amount: 500, refundOf: 'pi_1' };

/** Every way in which a call to move money can end, by a bank that answers so. */
const CALLS: readonly Cause[] = (['charge', 'refund'] as const).flatMap((operation) =>
  SIGNAL_WORDS.callOutcome.map((outcome) => ({
    cause: `a ${operation} at the bank ends as ${outcome}`,
    happen: ({ provider }: MeteredApp) => {
      const [status, body] = ANSWERS[outcome];
      const shown = status === 201 ? transfer({ ...(operation === 'refund' && REFUND_TRANSFER), ...body }) : body;
      provider.answer(status, shown);
      const bank = new MeasuredProvider(bankAt(provider.url));
      return operation === 'charge' ? bank.charge(CHARGE) : bank.refund(GIVE_BACK);
    },
    moves: { [calls('bank', operation, outcome)]: 1 },
  })),
);

const QUERY = { tenantId: CHARGE.tenantId, paymentId: PAYMENT, since: new Date(0) };

const LOOK_UPS: readonly Cause[] = [
  cause({
    cause: 'a look-up finds what it looked for',
    happen: ({ provider }) => {
      provider.answer(200, { data: [transfer()] });
      return new MeasuredProvider(bankAt(provider.url)).findCharges(QUERY);
    },
    moves: { [calls('bank', 'look_up', 'found')]: 1 },
  }),
  cause({
    cause: 'a look-up finds nothing',
    happen: ({ provider }) => {
      provider.answer(200, { data: [] });
      const query = { ...QUERY, refundId: REFUND, chargeRef: 'tr_1' };
      return new MeasuredProvider(bankAt(provider.url)).findRefunds(query);
    },
    moves: { [calls('bank', 'look_up', 'nothing')]: 1 },
  }),
  cause({
    cause: 'a look-up fails',
    happen: async ({ provider }) => {
      provider.answer(500, {});
      await new MeasuredProvider(bankAt(provider.url)).findCharges(QUERY).catch(() => undefined);
    },
    moves: { [calls('bank', 'look_up', 'failed')]: 1 },
  }),
  cause({
    cause: 'the list of what a provider has made is read',
    happen: async ({ provider }) => {
      provider.answer(200, { object: 'list', data: [], has_more: false });
      await readList(provider.url);
    },
    moves: { [calls('stripe', 'list', 'read')]: 1 },
  }),
  cause({
    cause: 'the list of what a provider has made cannot be read',
    happen: async ({ provider }) => {
      provider.answer(500, {});
      await readList(provider.url).catch(() => undefined);
    },
    moves: { [calls('stripe', 'list', 'failed')]: 1 },
  }),
];

async function readList(url: string): Promise<void> {
  for await (const _ of new MeasuredProvider(stripeAt(url)).madeSince!(new Date(0)));
}

const IN_PROGRESS = series('orders_idempotency_keys', { state: 'in_progress' });

const THROUGH_THE_SERVICE: readonly Cause[] = [
  cause({
    cause: 'a card is declined',
    before: ({ paying }) => paying.order(),
    happen: ({ paying }, orderId) => paying.pay(orderId, DECLINED_CARD),
    moves: {
      [requests('payments.create', 'refused')]: 1,
      [calls('stripe', 'charge', 'declined')]: 1,
      ...DELIVERED,
    },
  }),
  cause({
    cause: 'money is given back',
    before: ({ paying }) => paying.paid(),
    happen: ({ paying }, { id }) => paying.refund(id),
    moves: {
      [requests('refunds.create', 'executed')]: 1,
      [calls('stripe', 'refund', 'succeeded')]: 1,
      ...DELIVERED,
    },
  }),
  cause({
    cause: 'the outcome of a refund is not known',
    before: async ({ paying }) => {
      const { id } = await paying.paid();
      await paying.sandbox.arm('refunds.create', 'drop-response');
      return id;
    },
    happen: ({ paying }, id) => paying.refund(id),
    moves: {
      [requests('refunds.create', 'kept_open')]: 1,
      [calls('stripe', 'refund', 'unknown')]: 1,
      [IN_PROGRESS]: 1,
      orders_refunds_unknown: 1,
    },
  }),
  cause({
    cause: 'the bank shows no trace of a transfer that may have been made',
    before: async ({ paying }) => {
      const sought = { orderId: await paying.order(), key: randomUUID() };
      await paying.sandbox.arm('bank_transfers.create', 'reset-connection');
      await paying.pay(sought.orderId, TRANSFER, sought.key);
      return sought;
    },
    happen: ({ paying }, { orderId, key }) => paying.pay(orderId, TRANSFER, key),
    moves: { [requests('payments.create', 'kept_open')]: 1, [calls('bank', 'look_up', 'nothing')]: 1 },
  }),
  cause({
    cause: 'money is taken by a transfer',
    before: ({ paying }) => paying.order(),
    happen: ({ paying }, orderId) => paying.pay(orderId, TRANSFER),
    moves: {
      [requests('payments.create', 'executed')]: 1,
      [calls('bank', 'charge', 'succeeded')]: 1,
      ...DELIVERED,
    },
  }),
];

export const PROVIDER_CAUSES: readonly Cause[] = [...CALLS, ...LOOK_UPS, ...THROUGH_THE_SERVICE];
