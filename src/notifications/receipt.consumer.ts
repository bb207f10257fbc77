import { Injectable } from '@nestjs/common';
import type { Transaction } from '../database/transaction.js';
import type { CloudEvent } from '../messaging/cloud-event.js';
import { Consumes } from '../messaging/consumes.decorator.js';
import { insertNotification } from './notification-table.js';
import { NotificationSender } from './notification-sender.js';
import { receiptOf } from './receipt.js';

/** RFC 5321, section 4.5.3.1: a path has 256 octets, angle brackets included. */
const LONGEST_ADDRESS = 254;

/**
 * Makes of a payment that succeeded the intent to mail a receipt, in the transaction that remembers the event: the mail
 * itself is the sender's. It reads nothing but the event, so it can just as well run in another service.
 */
@Injectable()
export class ReceiptConsumer {
  constructor(private readonly sender: NotificationSender) {}

  @Consumes('payment.succeeded', { consumer: 'notifications.receipt' })
  async onPaid(event: CloudEvent, transaction: Transaction): Promise<void> {
    const { receiptEmail, ...content } = receiptOf(event.data);
    if (receiptEmail === undefined) return;
    const recipient = isAddress(receiptEmail) ? receiptEmail : undefined;
    await insertNotification(transaction, { eventId: event.id, channel: 'email', recipient, content });
    transaction.onCommitted(this.sender.nudge);
  }
}

/**
 * Whether it can be one address and nothing else. The API has looked at it more closely, but an event may have come from
 * somewhere else, and what is refused here would be a header or a second recipient there.
 */
function isAddress(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value.isWellFormed() &&
    Buffer.byteLength(value) <= LONGEST_ADDRESS &&
    // eslint-disable-next-line no-control-regex -- what is looked for
    /^[^\s\u0000-\u001f\u007f-\u009f<>,;]+@[^\s\u0000-\u001f\u007f-\u009f<>,;@]+$/u.test(value)
  );
}
