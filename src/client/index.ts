/**
 * A client that retries well, on `fetch` alone: Node.js 20.19 and browsers. The store on disk is a module of its own,
 * `idempotent-orders-service/client/file-intent-store`, because browsers have none.
 */
export type * from './api-types.js';
export type { Clock } from './clock.js';
export {
  CallAbortedError,
  IntentConflictError,
  OrdersClientError,
  OutcomeUnknownError,
  RefusedError,
  RetentionPassedError,
  RetriesExhaustedError,
} from './errors.js';
export { type DamagedEntry, type Intent, type IntentStore, isIntent, type KeyedOperation } from './intent.js';
export { MemoryIntentStore } from './memory-intent-store.js';
export type { CallEvent, Hooks, OrdersClientOptions } from './options.js';
export {
  type CallOptions,
  type EventQuery,
  type KeyedOptions,
  OrdersClient,
  type UpdateOptions,
  type VersionOptions,
} from './orders-client.js';
export type { Outcome, Refused, SettledOutcome, Succeeded } from './outcome.js';
