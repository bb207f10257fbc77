import { isUtf8 } from 'node:buffer';
import type Stripe from 'stripe';
import type { ProviderFact, ProviderNotice } from './payment-provider.js';
import { asked, StripeLedger } from './stripe-ledger.js';
import {
  chargeFact,
  ownerOf,
  readEvent,
  readObject,
  readPaymentIntent,
  readRefund,
  refundFact,
} from './stripe-objects.js';

/** Nothing may be believed of what arrived: it is not signed by Stripe, not lately, or is no event. */
export class BadSignatureError extends Error {
  override readonly name = 'BadSignatureError';

  constructor(cause?: unknown) {
    super('The message is not signed as Stripe signs its events', { cause });
  }
}

const BYTE_ORDER_MARK = '\uFEFF';

const CHARGE_EVENTS = [
  'payment_intent.succeeded',
  'payment_intent.payment_failed',
  'payment_intent.canceled',
  'payment_intent.processing',
];
const REFUND_EVENTS = ['refund.created', 'refund.updated', 'refund.failed', 'charge.refund.updated'];

/** Reads what Stripe sends by itself. */
export class StripeWebhooks {
  private readonly ledger: StripeLedger;

  constructor(
    private readonly stripe: Stripe,
    private readonly secret: string,
  ) {
    this.ledger = new StripeLedger(stripe);
  }

  /**
   * @param raw the bytes as they arrived: what is parsed and written again has another signature
   * @param signature the header `Stripe-Signature`
   * @throws BadSignatureError
   * @throws LookUpFailedError when it takes more than the message to know whose it is: it must be sent again
   */
  async read(raw: Buffer, signature: string | undefined): Promise<ProviderNotice> {
    const { id, type, data } = await this.verified(raw, signature);
    return { messageId: id, type, facts: await this.factsOf(type, data.object) };
  }

  private async verified(raw: Buffer, signature = ''): Promise<ReturnType<typeof readEvent>> {
    const body = raw.toString();
    // The SDK verifies what it decodes, and decoding mends these: other bytes would pass under the same signature.
    if (!isUtf8(raw) || body.startsWith(BYTE_ORDER_MARK)) throw new BadSignatureError();
    try {
      return readEvent(await this.stripe.webhooks.constructEventAsync(body, signature, this.secret));
    } catch (error) {
      throw new BadSignatureError(error);
    }
  }

  private async factsOf(type: string, object: unknown): Promise<ProviderFact[]> {
    if (CHARGE_EVENTS.includes(type)) return this.chargeFacts(object);
    if (REFUND_EVENTS.includes(type)) return this.refundFacts(object);
    if (type === 'charge.refunded') return this.factsOfRefundedCharge(object);
    return [];
  }

  private async chargeFacts(object: unknown): Promise<ProviderFact[]> {
    const owner = ownerOf(asked(() => readObject(object)));
    return owner
      ? [
          chargeFact(
            asked(() => readPaymentIntent(object)),
            owner,
          ),
        ]
      : [];
  }

  private async refundFacts(object: unknown): Promise<ProviderFact[]> {
    const refund = asked(() => readRefund(object));
    const owner = await this.ledger.ownerOfRefund(refund);
    return owner ? [refundFact(refund, owner)] : [];
  }

  /** The event shows the charge, and no longer which refund it is about. */
  private async factsOfRefundedCharge(object: unknown): Promise<ProviderFact[]> {
    const charge = asked(() => readObject(object));
    const intent = charge.payment_intent;
    const id = typeof intent === 'object' && intent !== null && 'id' in intent ? intent.id : intent;
    if (typeof id !== 'string' || id === '') return [];
    const owner = ownerOf(charge) ?? (await this.ledger.ownerOfIntent(id));
    const facts: ProviderFact[] = [];
    if (owner) for await (const refund of this.ledger.refundsOf(id)) facts.push(refundFact(refund, owner));
    return facts.reverse();
  }
}
