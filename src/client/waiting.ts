import { parseHttpDate } from './http-date.js';

/** How long to wait between attempts, in milliseconds. */
export interface Backoff {
  /** The bound of the first wait; it doubles with each. */
  readonly backoffBaseMs: number;
  /** What the bound does not grow beyond. */
  readonly backoffCapMs: number;
  /** The most of what a server asks for that is given. */
  readonly retryAfterCapMs: number;
}

/**
 * Exponential backoff with full jitter: anything between nothing and a bound that doubles. Of the ways to add jitter it
 * makes the fewest calls under contention ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
 *
 * @param attempt 1 for the wait after the first attempt
 * @param random from 0 to below 1
 * @returns milliseconds, from 0 to below the bound
 */
export function fullJitter(attempt: number, backoff: Backoff, random: () => number): number {
  const doublings = Math.min(attempt - 1, 40); // beyond, 0 * Infinity would be no number
  return random() * Math.min(backoff.backoffCapMs, backoff.backoffBaseMs * 2 ** doublings);
}

/**
 * What a `Retry-After` asks for: seconds or an HTTP date (RFC 9110, section 10.2.3). A date is relative to the answer's
 * own `Date`, so that the two clocks need not agree.
 *
 * @param now milliseconds since 1970, for an answer without a `Date`
 * @returns milliseconds; undefined when it is missing, malformed or already past
 */
export function retryAfterMs(headers: Headers, now: number): number | undefined {
  const text = headers.get('retry-after')?.trim() ?? '';
  if (/^\d+$/.test(text)) return Number(text) * 1_000 || undefined;
  const until = parseHttpDate(text, now);
  if (until === undefined) return undefined;
  const from = parseHttpDate(headers.get('date') ?? '', now) ?? now;
  return until > from ? until - from : undefined;
}

/**
 * The wait before the next attempt: what the server asked for, up to the cap, and the backoff on top of it, so that all
 * those who were sent away together do not come back together.
 *
 * @param askedMs what the server asked for
 * @returns milliseconds
 */
export function waitMs(attempt: number, askedMs: number | undefined, backoff: Backoff, random: () => number): number {
  return Math.min(askedMs ?? 0, backoff.retryAfterCapMs) + fullJitter(attempt, backoff, random);
}
