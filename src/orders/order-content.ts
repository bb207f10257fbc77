import { isDeepStrictEqual } from 'node:util';
import { validationFailed } from '../http/validation.js';
import type { NewOrder, NewOrderItem } from './dto/new-order.js';
import type { Order, OrderItem } from './order.entity.js';

/** What a client decides about an order. */
export interface OrderContent {
  readonly externalRef: string | null;
  readonly currency: string;
  readonly items: readonly OrderItem[];
  readonly totalAmount: number;
  readonly metadata: Readonly<Record<string, string>>;
}

/** @throws Problem `validation-failed` when the total is out of range */
export function contentOf(order: NewOrder): OrderContent {
  const { externalRef = null, currency, metadata } = order;
  const items = itemsOf(order.items);
  return { externalRef, currency, items, totalAmount: totalOf(items), metadata };
}

export function itemsOf(items: readonly NewOrderItem[]): OrderItem[] {
  return items.map(({ sku, quantity, unitAmount }) => ({ sku, quantity, unitAmount }));
}

/**
 * The sum of an order in minor units. Added up in whole numbers of any size: doubles would round what they cannot hold.
 *
 * @throws Problem `validation-failed` when it is not within 1 to 2^53 - 1
 */
export function totalOf(items: readonly OrderItem[]): number {
  const total = items.reduce((sum, { quantity, unitAmount }) => sum + BigInt(quantity) * BigInt(unitAmount), 0n);
  if (total < 1n || total > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw validationFailed([{ pointer: '/items', detail: 'the total must lie within 1 and 9007199254740991' }]);
  }
  return Number(total);
}

/** Whether an order has that content already. Its total follows from its items. */
export function hasContent(order: Order, content: OrderContent): boolean {
  const { externalRef, currency, items, metadata, totalAmount: _, ...forgotten } = content;
  // Does not compile when a member is not compared: an edit of it alone would pass for no change.
  forgotten satisfies Record<string, never>;
  return (
    order.externalRef === externalRef &&
    order.currency === currency &&
    isDeepStrictEqual(order.items, items) &&
    isDeepStrictEqual(order.metadata, metadata)
  );
}
