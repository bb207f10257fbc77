import { type Clock, SYSTEM_CLOCK } from './clock.js';
import type { IntentStore } from './intent.js';
import { MemoryIntentStore } from './memory-intent-store.js';
import type { SettledOutcome } from './outcome.js';
import type { OrdersClientError } from './errors.js';
import type { Retention } from './retention.js';
import type { Backoff } from './waiting.js';

/** What a hook is told of. */
export interface CallEvent {
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly key: string | undefined;
  /** 1 for the first of this call. */
  readonly attempt: number;
}

/** For logs and metrics. What they throw is ignored: they must not change what happens. */
export interface Hooks {
  onAttempt?(event: CallEvent): void;
  onRetry?(event: CallEvent & { readonly reason: string; readonly waitMs: number }): void;
  onSuccess?(event: CallEvent): void;
  onGiveUp?(event: CallEvent & { readonly error: OrdersClientError }): void;
  /** A final answer is there, but the store could not forget its intent: `resume()` gets the same answer again. */
  onStoreError?(event: { readonly key: string; readonly error: unknown }): void;
}

/** All that a client can be told; durations in milliseconds. */
export interface OrdersClientOptions extends Partial<Backoff & Retention> {
  /** Such as `https://orders.example.com`, below which `/v1` is. */
  readonly baseUrl: string;
  /** The tenant's API key, or where to get the present one: it is asked for before each attempt. */
  readonly apiKey: string | (() => string | Promise<string>);
  /** Where intents survive (memory, which does not survive). */
  readonly store?: IntentStore;
  /** Attempts of one call at most (8). */
  readonly maxAttempts?: number;
  /** For one call with all its attempts and waits (120,000). */
  readonly deadlineMs?: number;
  /** For one attempt (15,000): longer than the service waits for a provider. */
  readonly attemptTimeoutMs?: number;
  /** Bytes of an answer's body (10 MiB). */
  readonly maxBodyBytes?: number;
  /**
   * Awaited after the final answer and before its intent is forgotten: the place to write the outcome down. Should the
   * process die in between, `resume()` comes here again, so write it so that twice is once. When it rejects, so does the
   * call, and the intent stays.
   */
  readonly settle?: (outcome: SettledOutcome) => void | Promise<void>;
  readonly hooks?: Hooks;
  readonly fetch?: typeof globalThis.fetch;
  /** Resolves after so many milliseconds, or as soon as the signal aborts. */
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
  /** From 0 to below 1. */
  readonly random?: () => number;
  readonly clock?: Clock;
  readonly makeKey?: () => string;
}

export type CompleteOptions = Required<OrdersClientOptions>;

const BOUNDS = ['maxAttempts', 'deadlineMs', 'attemptTimeoutMs', 'maxBodyBytes', 'retentionMs'] as const;
const NOT_NEGATIVE = ['backoffBaseMs', 'backoffCapMs', 'retryAfterCapMs', 'retentionMarginMs'] as const;

/** @throws RangeError for a bound that is none, TypeError for a base URL that is none */
export function complete(options: OrdersClientOptions): CompleteOptions {
  const all: CompleteOptions = {
    store: new MemoryIntentStore(),
    maxAttempts: 8,
    deadlineMs: 120_000,
    attemptTimeoutMs: 15_000,
    backoffBaseMs: 200,
    backoffCapMs: 20_000,
    retryAfterCapMs: 60_000,
    retentionMs: 24 * 60 * 60_000,
    retentionMarginMs: 60_000,
    maxBodyBytes: 10 * 1024 * 1024,
    settle: () => undefined,
    hooks: {},
    fetch: (...request) => globalThis.fetch(...request),
    sleep,
    random: Math.random,
    clock: SYSTEM_CLOCK,
    makeKey: () => crypto.randomUUID(),
    ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
    baseUrl: baseOf(options.baseUrl),
    apiKey: options.apiKey,
  };
  for (const name of BOUNDS) if (!(all[name] > 0)) throw new RangeError(`${name} must be more than 0`);
  for (const name of NOT_NEGATIVE) if (!(all[name] >= 0)) throw new RangeError(`${name} must not be negative`);
  if (all.retentionMarginMs >= all.retentionMs) throw new RangeError('retentionMarginMs must be less than retentionMs');
  return all;
}

function baseOf(text: string): string {
  const url = new URL(text);
  if (!/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new TypeError('baseUrl must be an http or https URL without credentials, query and fragment');
  }
  return url.href.replace(/\/+$/, '');
}

function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', wake);
      resolve();
    };
    const timer = setTimeout(wake, ms);
    signal?.addEventListener('abort', wake);
    if (signal?.aborted) wake();
  });
}
