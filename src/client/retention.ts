import type { Timekeeper } from './clock.js';
import type { Intent } from './intent.js';

/** For how long a repeat is safe. */
export interface Retention {
  /** Milliseconds that the server keeps an answer at least (its `IDEMPOTENCY_RETENTION`). */
  readonly retentionMs: number;
  /** Milliseconds before the end from which on nothing is sent: an attempt takes time, and clocks differ. */
  readonly retentionMarginMs: number;
}

const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

/**
 * Whether an intent may still be sent. Past the retention the server knows the key no more and would execute again. What
 * an earlier answer said (`Idempotency-Expires`) decides, by the server's clock. Without one it is the intent's age: the
 * server counts from the completion, which is no earlier than the making of the key.
 *
 * @returns undefined when it may; else why not
 */
export function whyTooLate(intent: Intent, time: Timekeeper, retention: Retention): string | undefined {
  const { retentionMs, retentionMarginMs: margin } = retention;
  const expiresAt = intent.expiresAt === undefined ? Number.NaN : Date.parse(intent.expiresAt);
  if (!Number.isNaN(expiresAt)) {
    const now = time.atServer() ?? time.local() + (intent.serverOffsetMs ?? 0);
    return now < expiresAt - margin ? undefined : `its answer is kept until ${intent.expiresAt}`;
  }
  const age = ageOf(intent, time);
  // A clock that was set back hides the age: better not sent than sent twice.
  if (age < -margin) return 'it was made in the future by the clock of this machine, so its age is not known';
  return age < retentionMs - margin ? undefined : `it is ${Math.round(age / 1000)} s old`;
}

/** Milliseconds; of the clocks that can tell, the one that says more. */
function ageOf(intent: Intent, time: Timekeeper): number {
  const createdAt = Date.parse(intent.createdAt);
  const server = time.atServer();
  if (server === undefined) return time.local() - createdAt;
  if (intent.serverOffsetMs !== undefined) return server - (createdAt + intent.serverOffsetMs);
  return Math.max(time.local() - createdAt, server - createdAt);
}

/** The `Idempotency-Expires` of an answer, as it is, when it is an RFC 3339 time. */
export function expiryIn(headers: Headers): string | undefined {
  const text = headers.get('idempotency-expires')?.trim() ?? '';
  return RFC_3339.test(text) && !Number.isNaN(Date.parse(text)) ? text : undefined;
}
