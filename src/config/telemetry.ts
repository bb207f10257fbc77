import { channel } from 'node:diagnostics_channel';

/** What happens inside and is worth counting. */
export interface Signals {
  /** A request under a key has ended. */
  'keyed-request': { readonly endpoint: string; readonly outcome: string };
  /** An owner found that somebody else has its operation. */
  'lease-lost': { readonly endpoint: string };
  'provider-call': {
    readonly provider: string;
    readonly operation: 'charge' | 'refund' | 'look_up';
    readonly outcome: string;
    readonly milliseconds: number;
  };
  /** The provider has done twice what should have happened once. */
  'duplicate-effect': { readonly provider: string };
  'event-delivery': { readonly outcome: 'published' | 'refused' | 'unavailable' | 'dead' };
  message: { readonly consumer: string; readonly outcome: 'applied' | 'repeated' | 'failed' | 'malformed' };
}

const PREFIX = 'orders-service:';

/**
 * Tells whoever counts. Mechanisms know nothing of metrics: where nobody listens this costs next to nothing, and a folder
 * that is lifted into another service works without them (Node's `diagnostics_channel`).
 */
export function tell<Name extends keyof Signals>(name: Name, signal: Signals[Name]): void {
  const telling = channel(PREFIX + name);
  if (telling.hasSubscribers) telling.publish(signal);
}

/** @returns what ends the listening */
export function listen<Name extends keyof Signals>(name: Name, listener: (signal: Signals[Name]) => void): () => void {
  const telling = channel(PREFIX + name);
  const subscriber = (signal: unknown) => listener(signal as Signals[Name]);
  telling.subscribe(subscriber);
  return () => void telling.unsubscribe(subscriber);
}
