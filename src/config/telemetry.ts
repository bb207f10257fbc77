import { channel } from 'node:diagnostics_channel';

/** Every word that a signal may say: each is a label value of a metric, and has a test that provokes it. */
export const SIGNAL_WORDS = {
  keyedOutcome: ['executed', 'refused', 'replayed', 'in_use', 'mismatch', 'released', 'taken_over', 'kept_open'],
  provider: ['stripe', 'bank'],
  callOutcome: ['succeeded', 'pending', 'declined', 'failed', 'refused', 'not_happened', 'unknown', 'fault'],
  lookUpOutcome: ['found', 'nothing', 'failed'],
  listOutcome: ['read', 'failed'],
  deliveryOutcome: ['published', 'refused', 'unavailable'],
  messageOutcome: ['applied', 'repeated', 'failed', 'malformed'],
  runOutcome: ['succeeded', 'failed'],
} as const;

type Word<Of extends keyof typeof SIGNAL_WORDS> = (typeof SIGNAL_WORDS)[Of][number];

/** What became of a request under a key. */
export type KeyedOutcome = Word<'keyedOutcome'>;
/** How a call that moves money ended. */
export type CallOutcome = Word<'callOutcome'>;

/** How a provider was called, and how that ended. */
export type ProviderCall =
  | { readonly operation: 'charge' | 'refund'; readonly outcome: CallOutcome }
  | { readonly operation: 'look_up'; readonly outcome: Word<'lookUpOutcome'> }
  | { readonly operation: 'list'; readonly outcome: Word<'listOutcome'> };

/** What happens inside and is worth counting. */
export interface Signals {
  /** A request under a key has ended. */
  'keyed-request': { readonly endpoint: string; readonly outcome: KeyedOutcome };
  /** An owner found that somebody else has its operation. */
  'lease-lost': { readonly endpoint: string };
  'provider-call': ProviderCall & { readonly provider: Word<'provider'>; readonly milliseconds: number };
  /** The provider has done twice what should have happened once. Told after the commit that notes it. */
  'duplicate-effect': { readonly provider: Word<'provider'>; readonly operation: 'charge' | 'refund' };
  /** A relay has tried to hand over an event. */
  'event-delivery': { readonly outcome: Word<'deliveryOutcome'> };
  /** A relay has put an event aside. */
  'event-dead': Record<string, never>;
  /** There is a consumer in this process. */
  consumer: { readonly consumer: string };
  /** A consumer was given a message. */
  message: { readonly consumer: string; readonly outcome: Word<'messageOutcome'> };
  /** A message was given up, and put into the broker's queue of dead ones. */
  'message-dead': { readonly consumer: string };
  /** Work is to be done again and again from now on. */
  schedule: { readonly work: string };
  /** It was done. */
  'scheduled-run': { readonly work: string; readonly outcome: Word<'runOutcome'> };
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
