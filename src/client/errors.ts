import type { Problem } from './api-types.js';

/** What every error of a call tells, beside its class. */
interface CallFacts {
  /** Attempts that were made by this call. */
  readonly attempts: number;
  /** The key of the intent; undefined for a call without one. */
  readonly key?: string | undefined;
  readonly cause?: unknown;
}

/** What a call can reject with. Tell the kinds apart by `kind`, or by class. */
export abstract class OrdersClientError extends Error {
  abstract readonly kind: 'refused' | 'exhausted' | 'unknown' | 'retention-passed' | 'aborted' | 'conflict';
  readonly attempts: number;
  readonly key: string | undefined;

  protected constructor(message: string, { attempts, key, cause }: CallFacts) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.attempts = attempts;
    this.key = key;
  }
}

/** Final: the service said no. Its problem document says why (RFC 9457); sending the same again changes nothing. */
export class RefusedError extends OrdersClientError {
  readonly kind = 'refused';

  constructor(
    readonly problem: Problem,
    /**
     * An attempt before the one that was refused may have had its effect: only of calls without a key. A 412 then may be
     * the answer to one's own change; read the resource.
     */
    readonly mayHaveHappenedBefore: boolean,
    facts: CallFacts,
  ) {
    super(`${problem.status} ${problem.code}: ${problem.detail}`, facts);
  }

  get status(): number {
    return this.problem.status;
  }

  /** The machine's handle: `payment-declined`, `order-not-editable` ... */
  get code(): string {
    return this.problem.code;
  }
}

/** Nothing has happened, but the bounds are reached: every attempt was turned away before it had an effect. */
export class RetriesExhaustedError extends OrdersClientError {
  readonly kind = 'exhausted';

  constructor(reason: string, facts: CallFacts) {
    super(`Not done after ${attemptsOf(facts)}: ${reason}`, facts);
  }
}

/** It may have happened or not. Under a key: `resume()` finds out. Never send it anew under another key. */
export class OutcomeUnknownError extends OrdersClientError {
  readonly kind = 'unknown';

  constructor(
    reason: string,
    facts: CallFacts,
    /** The last refusal, when it was one that says nothing of earlier attempts (401, 404 ...). */
    readonly problem?: Problem,
  ) {
    super(`It is not known whether it happened, after ${attemptsOf(facts)}: ${reason}`, facts);
  }
}

/**
 * The server may have forgotten the key: sent again, the request might be executed a second time. The intent stays stored
 * until a person, or a look at the resource, has decided (`discard`).
 */
export class RetentionPassedError extends OrdersClientError {
  readonly kind = 'retention-passed';

  constructor(reason: string, facts: CallFacts) {
    super(`Not sent again, because a repeat is not safe any more: ${reason}`, facts);
  }
}

/** The caller's signal ended the call. A keyed intent stays stored. `name` is `AbortError`, as callers expect. */
export class CallAbortedError extends OrdersClientError {
  readonly kind = 'aborted';

  constructor(
    /** Whether something may have happened. */
    readonly mayHaveHappened: boolean,
    facts: CallFacts,
  ) {
    super(`Aborted after ${attemptsOf(facts)}`, facts);
    this.name = 'AbortError';
  }
}

/** The key already belongs to another request in the store, or is being sent by this client at this moment. */
export class IntentConflictError extends OrdersClientError {
  readonly kind = 'conflict';

  constructor(message: string, key: string) {
    super(message, { attempts: 0, key });
  }
}

function attemptsOf({ attempts }: CallFacts): string {
  return attempts === 1 ? 'one attempt' : `${attempts} attempts`;
}
