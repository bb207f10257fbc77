import { randomUUID } from 'node:crypto';
import { Injectable, Logger } from '@nestjs/common';
import { DatabaseUnavailableError, OutcomeUnknownError } from '../database/database.errors.js';
import { isPassingFailure } from '../database/sql-state.js';
import type { Transaction } from '../database/transaction.js';
import { Problem } from '../http/problem.js';
import { InternalError, ServiceUnavailable } from '../http/problems.js';
import type { StoredResponse } from '../idempotency/key-record.js';
import { type Completion, LeaseTooShortError, type Operation } from '../idempotency/operation.js';
import { PaymentOutcomeUnknown } from './payment.problems.js';
import {
  type Effect,
  LookUpFailedError,
  type PaymentProvider,
  type ProviderAnswer,
} from './providers/payment-provider.js';

/** Milliseconds before the end of a provider's key window in which nobody sends again: clocks differ, calls take time. */
const WINDOW_MARGIN = 600_000;

/** What the first step of a course notes, and every later attempt goes by. */
export interface Intent {
  readonly paymentId: string;
  /** `possible`: a call may have arrived; `none`: the last one is proven not to have happened. */
  readonly call: 'possible' | 'none';
}

/** One movement of money at a provider, and what is to be made of what comes back. */
export interface Course<I extends Intent> {
  readonly provider: PaymentProvider;
  /** The longest that one call takes, in milliseconds. */
  readonly timeout: number;
  readonly sent: string;
  readonly confirmed: string;
  readonly intent: I;
  /** Calls the provider, once. */
  send(): Promise<ProviderAnswer>;
  /** Asks the provider what it did. Throws LookUpFailedError. */
  look(): Promise<Effect[]>;
  /** Whether it is settled already, and how many milliseconds ago it was sent first, by the database's clock. */
  state(): Promise<{ readonly settled: boolean; readonly age: number }>;
  /**
   * Writes down what the provider shows and gives the answer to store.
   *
   * @param effects none: it is settled already
   * @throws StillOpenError when that settles nothing
   */
  settle(transaction: Transaction, effects: readonly Effect[]): Promise<StoredResponse>;
  /** Writes down that the provider refused before it did anything, and gives the answer to store. */
  refuse(transaction: Transaction, code: string): Promise<StoredResponse>;
  /** Writes down that nothing is to be found of it, and gives the answer to store. */
  giveUp(transaction: Transaction): Promise<StoredResponse>;
}

/** What the provider shows settles nothing yet. */
export class StillOpenError extends Error {
  override readonly name = 'StillOpenError';

  constructor(reason: string) {
    super(`The outcome is still open: ${reason}`);
  }
}

/** The provider shows nothing of it, and it is too early to say that nothing has happened: time will tell. */
export class TooEarlyError extends StillOpenError {
  constructor() {
    super('nothing to be seen of it yet');
  }
}

/**
 * The discipline of every call that moves money:
 *
 * ```
 * intent committed (sent)  ->  call  ->  outcome and answer committed (confirmed)
 * ```
 *
 * The call stands between two transactions and in none. Whoever comes later and finds `sent` does not know whether the
 * call arrived, so it looks before it acts; it sends again only what the provider recognises by the same child key, or
 * what is proven not to have happened.
 */
@Injectable()
export class ProviderCourse {
  private readonly logger = new Logger('Payments');

  /**
   * The attempt that has just committed the intent.
   *
   * @throws Problem `payment-outcome-unknown`, `service-unavailable`, `internal-error`
   */
  async begin<I extends Intent>(operation: Operation, course: Course<I>): Promise<Completion> {
    return this.open(() => this.call(operation, course, false));
  }

  /**
   * A later attempt with the same key, which finds the intent.
   *
   * @throws Problem `payment-outcome-unknown`, `service-unavailable`, `internal-error`
   */
  async goOn<I extends Intent>(operation: Operation, course: Course<I>): Promise<Completion> {
    return this.open(async () => {
      const { settled, age } = await course.state();
      if (settled) return operation.complete(course.confirmed, (transaction) => course.settle(transaction, []));
      if (course.intent.call === 'none') {
        // Noted before the call: should this attempt break off behind it, the next one must look.
        await operation.step(course.sent, async (): Promise<I> => ({ ...course.intent, call: 'possible' }));
        return this.call(operation, course, false);
      }
      const found = await this.find(operation, course);
      if (found) return found;
      if (age > course.provider.keyWindow - WINDOW_MARGIN) throw new TooEarlyError();
      return this.call(operation, course, true);
    });
  }

  /**
   * The reconciler's turn: it only reads, and settles by what it sees.
   *
   * @param patience milliseconds since the first call after which what left no trace is given up
   * @throws StillOpenError, LookUpFailedError
   */
  async reconcile<I extends Intent>(operation: Operation, course: Course<I>, patience: number): Promise<Completion> {
    const { settled, age } = await course.state();
    if (settled) return operation.complete(course.confirmed, (transaction) => course.settle(transaction, []));
    const found = await this.find(operation, course);
    if (found) return found;
    if (age <= patience) throw new TooEarlyError();
    return operation.complete(course.confirmed, (transaction) => course.giveUp(transaction));
  }

  private async find<I extends Intent>(operation: Operation, course: Course<I>): Promise<Completion | undefined> {
    const effects = await course.look();
    if (effects.length === 0) return undefined;
    return operation.complete(course.confirmed, (transaction) => course.settle(transaction, effects));
  }

  /** @param doubt whether an earlier call may have arrived: then a refusal of this one proves nothing */
  private async call<I extends Intent>(operation: Operation, course: Course<I>, doubt: boolean): Promise<Completion> {
    operation.requireTime(course.timeout);
    const answer = await course.send();
    switch (answer.kind) {
      case 'effect':
        return operation.complete(course.confirmed, (transaction) => course.settle(transaction, [answer.effect]));
      case 'refused':
        if (doubt) throw new StillOpenError(`an earlier call is unknown, this one was refused: ${answer.code}`);
        return operation.complete(course.confirmed, (transaction) => course.refuse(transaction, answer.code));
      case 'not-happened':
        if (doubt) throw new StillOpenError(`an earlier call is unknown, this one did not happen: ${answer.reason}`);
        await operation.step(course.sent, async (): Promise<I> => ({ ...course.intent, call: 'none' }));
        this.logger.warn(`provider_unavailable: ${course.provider.name}: ${answer.reason}`);
        throw new Problem(ServiceUnavailable, 'The provider could not be called. No money has moved.', RETRY);
      case 'unknown':
        throw new StillOpenError(answer.reason);
      case 'fault':
        throw this.fault(course.provider.name, answer.code, answer.reason);
    }
  }

  /** Behind the first step whatever goes wrong leaves the operation open: money may have moved. */
  private async open(work: () => Promise<Completion>): Promise<Completion> {
    try {
      return await work();
    } catch (error) {
      if (!isPassing(error)) throw error;
      this.logger.warn(`payment_outcome_unknown: ${(error as Error).message}`);
      throw new Problem(PaymentOutcomeUnknown, 'Send the same request with the same key again to find out.', {
        ...RETRY,
        cause: error,
      });
    }
  }

  private fault(provider: string, code: string, reason: string): Problem {
    const errorId = randomUUID();
    this.logger.error(`provider_fault: errorId=${errorId} ${provider} ${code}: ${reason}`);
    return new Problem(InternalError, 'The service failed. The failure is on record under the errorId.', {
      members: { errorId },
    });
  }
}

const RETRY = { headers: { 'Retry-After': '2' } };

function isPassing(error: unknown): boolean {
  return (
    [StillOpenError, LookUpFailedError, LeaseTooShortError, DatabaseUnavailableError, OutcomeUnknownError].some(
      (type) => error instanceof type,
    ) || isPassingFailure(error)
  );
}
