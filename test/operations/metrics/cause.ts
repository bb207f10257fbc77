import type { MeteredApp } from './metered-app.js';
import type { Samples } from './scrape.js';

/** Something that happens, and every series that it moves. */
export interface Cause<Before = unknown> {
  /** `move when {cause}`. */
  readonly cause: string;
  /** What has to be so before; its own moves do not count. */
  readonly before?: (app: MeteredApp) => Promise<Before>;
  readonly happen: (app: MeteredApp, before: Before) => Promise<unknown>;
  /** All others stand still. */
  readonly moves: Samples;
}

/** A cause to stand among others, whatever it needs from before. */
export function cause<Before>(one: Cause<Before>): Cause {
  return one as Cause;
}

/** A series as Prometheus writes it. */
export function series(name: string, labels: Readonly<Record<string, string>> = {}): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return pairs.length > 0 ? `${name}{${pairs.join(',')}}` : name;
}

export const requests = (endpoint: string, outcome: string): string =>
  series('orders_idempotency_requests_total', { endpoint, outcome });
export const calls = (provider: string, operation: string, outcome: string): string =>
  series('orders_provider_call_seconds_count', { provider, operation, outcome });
export const duplicates = (provider: string, operation: string): string =>
  series('orders_duplicate_effects_total', { provider, operation });
export const deliveries = (outcome: string): string => series('orders_event_deliveries_total', { outcome });
export const messages = (outcome: string, consumer = 'test.metered'): string =>
  series('orders_messages_total', { consumer, outcome });
export const runs = (work: string, outcome: string): string => series('orders_scheduled_runs_total', { work, outcome });

/** Of an event that is delivered and that no consumer wants. */
export const DELIVERED: Samples = { [deliveries('published')]: 1 };
/** Of an order's event. */
export const CONSUMED: Samples = { ...DELIVERED, [messages('applied')]: 1 };
/** Of a run of the reconciliation that reads what Stripe has made. */
export const RECONCILED: Samples = { [runs('reconciliation', 'succeeded')]: 1, [calls('stripe', 'list', 'read')]: 1 };
