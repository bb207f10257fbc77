import { SetMetadata } from '@nestjs/common';
import type { Transaction } from '../database/transaction.js';
import type { CloudEvent } from './cloud-event.js';

export interface ConsumesOptions {
  /** The type of the events, such as `payment.succeeded`. */
  readonly type: string;
  /** A stable name: what this consumer has applied is remembered under it. Never rename it: everything would come again. */
  readonly consumer: string;
}

export const CONSUMES = Symbol('CONSUMES');

/** What stands under {@link Consumes}. */
export type EventHandler = (event: CloudEvent, transaction: Transaction) => Promise<void>;

/**
 * Makes a method of a provider the consumer of a type of events. Events arrive at least once, perhaps late; the method is
 * called in a transaction that also remembers the event's id, so that what it writes there happens once. It must do
 * nothing outside of that transaction: write an intent, and let a job act on it.
 *
 * What it throws rolls everything back and the event comes again, later each time; after the last attempt it is put aside
 * with the reason, and others go on.
 *
 * @example
 * ⁠@Consumes('payment.succeeded', { consumer: 'loyalty.points' })
 * async onPaid(event: CloudEvent, transaction: Transaction) {
 *   await transaction.query('UPDATE ... SET points = points + 1 ...');
 * }
 */
export function Consumes(type: string, { consumer }: Pick<ConsumesOptions, 'consumer'>): MethodDecorator {
  return SetMetadata(CONSUMES, { type, consumer } satisfies ConsumesOptions);
}
