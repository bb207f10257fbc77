import Stripe from 'stripe';
import { LookUpFailedError } from './payment-provider.js';
import {
  type Owner,
  ownerOf,
  type PaymentIntent,
  readObject,
  readPage,
  readPaymentIntent,
  readRefund,
  type Refund,
  type StripeObject,
} from './stripe-objects.js';

/** The most that Stripe gives at once. */
const PAGE = 100;
/** By how much Stripe's clock and the database's may differ. */
const CLOCK_MARGIN_S = 300;

/**
 * What Stripe shows of our movements. Lists, never searches: a search lags behind, so it proves no absence. What cannot
 * be read in full proves none either: each method throws LookUpFailedError whatever goes wrong.
 */
export class StripeLedger {
  constructor(private readonly stripe: Stripe) {}

  /** Payment intents of this service made since that time, newest first. */
  async *paymentIntentsSince(time: Date): AsyncGenerator<{ intent: PaymentIntent; owner: Owner }> {
    const params = { created: madeSince(time), limit: PAGE };
    const pages = (after: object) => this.stripe.paymentIntents.list({ ...params, ...after });
    for await (const item of itemsOf(pages)) {
      const owner = ownerOf(item);
      if (owner) yield { intent: asked(() => readPaymentIntent(item)), owner };
    }
  }

  /** Refunds made since that time of payments of this service, newest first. */
  async *refundsSince(time: Date): AsyncGenerator<{ refund: Refund; owner: Owner }> {
    const params = { created: madeSince(time), limit: PAGE, expand: ['data.payment_intent'] };
    const pages = (after: object) => this.stripe.refunds.list({ ...params, ...after });
    for await (const item of itemsOf(pages)) {
      const refund = asked(() => readRefund(item));
      const owner = await this.ownerOfRefund(refund);
      if (owner) yield { refund, owner };
    }
  }

  /** Every refund of a payment intent, newest first. */
  async *refundsOf(paymentIntent: string): AsyncGenerator<Refund> {
    const params = { payment_intent: paymentIntent, limit: PAGE };
    const pages = (after: object) => this.stripe.refunds.list({ ...params, ...after });
    for await (const item of itemsOf(pages)) yield asked(() => readRefund(item));
  }

  /** Made by this service, a refund says so itself; made at the dashboard, only the payment intent behind it does. */
  async ownerOfRefund(refund: Refund): Promise<Owner | undefined> {
    const { payment_intent: intent } = refund;
    const owner = ownerOf(refund);
    if (owner || !intent) return owner;
    return typeof intent === 'string' ? this.ownerOfIntent(intent) : ownerOf(intent);
  }

  async ownerOfIntent(id: string): Promise<Owner | undefined> {
    try {
      return ownerOf(readObject(await this.stripe.paymentIntents.retrieve(id)));
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw new LookUpFailedError('stripe', error);
    }
  }
}

function madeSince(time: Date): { gte: number } {
  return { gte: Math.max(0, Math.floor(time.getTime() / 1_000) - CLOCK_MARGIN_S) };
}

/**
 * The SDK's own paging takes a page without `has_more` for the last one, so that an answer cut short would pass for
 * "nothing there", and follows a list that repeats itself for ever.
 */
async function* itemsOf(pages: (after: object) => Promise<unknown>): AsyncGenerator<StripeObject> {
  const seen = new Set<string>();
  for (let after = {}; ; after = { starting_after: [...seen].at(-1) }) {
    const { data, has_more: hasMore } = await nextPage(pages, after);
    for (const item of data) {
      if (seen.has(item.id)) throw new LookUpFailedError('stripe', new Error(`${item.id} is in the list twice`));
      seen.add(item.id);
      yield item;
    }
    if (!hasMore) return;
    if (data.length === 0) throw new LookUpFailedError('stripe', new Error('An empty page is not the last one'));
  }
}

async function nextPage(pages: (after: object) => Promise<unknown>, after: object) {
  try {
    return readPage(await pages(after));
  } catch (error) {
    throw new LookUpFailedError('stripe', error);
  }
}

/** Stripe's own 404. One of a proxy on the way says nothing of what Stripe has. */
function isMissing(error: unknown): boolean {
  if (!(error instanceof Stripe.errors.StripeError)) return false;
  return error.statusCode === 404 && error.rawType === 'invalid_request_error';
}

/** An object of ours that cannot be read is no reason to say that there is none. */
export function asked<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new LookUpFailedError('stripe', error);
  }
}
