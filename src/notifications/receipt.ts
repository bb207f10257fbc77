import { UUID } from '../http/uuid-param.pipe.js';
import { amountText } from './iso-4217.js';

/** What a receipt says, as the event gave it. */
export interface Receipt {
  readonly paymentId: string;
  readonly orderId: string;
  /** Minor units. */
  readonly amount: number;
  /** ISO 4217. */
  readonly currency: string;
  /** RFC 3339. */
  readonly paidAt: string;
}

/**
 * Reads what `payment.succeeded` tells of a payment.
 *
 * @throws Error when it is no payment: its producer is at fault, and a person must look
 */
export function receiptOf(data: unknown): Receipt & { readonly receiptEmail?: unknown } {
  const { id, orderId, amount, currency, updatedAt, receiptEmail } = (data ?? {}) as Record<string, unknown>;
  const isPayment =
    [id, orderId].every((value) => typeof value === 'string' && UUID.test(value)) &&
    Number.isSafeInteger(amount) &&
    (amount as number) >= 0 &&
    typeof currency === 'string' &&
    /^[A-Z]{3}$/.test(currency) &&
    typeof updatedAt === 'string' &&
    !Number.isNaN(Date.parse(updatedAt));
  if (!isPayment) throw new Error('The event tells of no payment');
  return {
    paymentId: id as string,
    orderId: orderId as string,
    amount: amount as number,
    currency,
    paidAt: new Date(updatedAt).toISOString(),
    receiptEmail,
  };
}

/** Plain text, in lines that every mail program shows alike. */
export function renderReceipt({ paymentId, orderId, amount, currency, paidAt }: Receipt): {
  subject: string;
  text: string;
} {
  const paid = amountText(amount, currency);
  return {
    subject: `Receipt for your payment of ${paid}`,
    text: `Thank you. We have received your payment.

Amount   ${paid}
Date     ${paidAt.slice(0, 16).replace('T', ' ')} UTC
Order    ${orderId}
Payment  ${paymentId}

This message was sent automatically.
`,
  };
}
