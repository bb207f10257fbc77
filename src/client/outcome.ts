import type { Order, Payment, Refund } from './api-types.js';
import type { OrdersClientError, RefusedError, RetentionPassedError } from './errors.js';
import type { DamagedEntry, Intent, KeyedOperation } from './intent.js';

/** What each keyed operation gives. */
export interface Values {
  createOrder: Order;
  updateOrder: Order;
  payOrder: Payment;
  refundPayment: Refund;
  request: unknown;
}

/** It happened, once. */
export type Succeeded = {
  [Operation in KeyedOperation]: {
    readonly status: 'succeeded';
    readonly operation: Operation;
    readonly intent: Intent;
    readonly value: Values[Operation];
  };
}[KeyedOperation];

/** It will not happen. */
export interface Refused {
  readonly status: 'refused';
  readonly operation: KeyedOperation;
  readonly intent: Intent;
  readonly error: RefusedError;
}

/** A final answer. */
export type SettledOutcome = Succeeded | Refused;

/** What `resume()` found out about a stored intent. */
export type Outcome =
  | SettledOutcome
  /** Not yet known: it stays stored for the next `resume()`. */
  | { readonly status: 'unfinished'; readonly intent: Intent; readonly error: OrdersClientError }
  /** Too old to be sent again: it stays stored until `discard`. */
  | { readonly status: 'expired'; readonly intent: Intent; readonly error: RetentionPassedError }
  /** Not readable any more: it stays where it is. */
  | { readonly status: 'damaged'; readonly damaged: DamagedEntry };
