import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import type { Statement, Transaction } from '../database/transaction.js';
import type { UnitOfWork } from '../database/unit-of-work.js';
import { childKey } from './child-key.js';
import type { KeyRecord, StoredResponse } from './key-record.js';
import { expiryOf } from './key-store.js';
import {
  type Claimed,
  completeStatement,
  CREATED,
  fenceStatement,
  giveBackStatement,
  refuseStatement,
  releaseStatement,
  stepStatement,
} from './lease-store.js';

/** Thrown when somebody else has taken the operation over, or has completed it: whoever gets it must stop. */
export class LeaseLostError extends Error {
  override readonly name = 'LeaseLostError';

  constructor() {
    super('The lease is lost: another request or job has the operation now');
  }
}

/** Thrown when the lease would end before a call does: the call is not made, and a later attempt goes on. */
export class LeaseTooShortError extends Error {
  override readonly name = 'LeaseTooShortError';

  constructor() {
    super('The lease does not last for another call');
  }
}

/** How long leases and answers last, in milliseconds. */
export interface Durations {
  readonly lease: number;
  readonly retention: number;
}

/** How an operation ended: proof for the handler that it did. */
export type Completion = Required<Pick<KeyRecord, 'completed'>>;

/**
 * An operation that reaches outside of the database, owned under a lease. It is done in steps, each of them one
 * transaction that also notes how far the operation has come; calls to the outside stand between steps, never in one.
 * Whoever takes the operation over goes on from the last step with what that step has noted.
 *
 * Every step holds the key row and looks whether it is still ours before it writes: an owner that was stalled past its
 * lease writes nothing anywhere.
 *
 * @example
 * const intent = operation.isNew
 *   ? await operation.step('charge_sent', (transaction) => reserve(transaction)) // what it returns is noted
 *   : (operation.data as Intent);
 * operation.requireTime(timeout);
 * const answer = await provider.charge(intent, operation.childKey('charge'));
 * return operation.complete('charge_confirmed', (transaction) => book(transaction, answer)); // returns the response
 */
export class Operation {
  private point: string;
  private noted: unknown;
  /** Clock of this process, which goes on while the process is stopped: never later than the lease's end. */
  private leasedUntil: number;
  private readonly heldUntil: number;
  private completion: (Completion & KeyRecord) | undefined;

  /**
   * @param claimedAt {@link performance.now} before the claim was sent
   * @param seen what the record of the key shows beside the answer
   */
  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly claimed: Claimed,
    private readonly durations: Durations,
    claimedAt: number,
    private readonly seen: Pick<KeyRecord, 'fingerprint' | 'fingerprintVersion'>,
  ) {
    this.point = claimed.recoveryPoint;
    this.noted = claimed.recoveryData ?? undefined;
    this.leasedUntil = claimedAt + durations.lease;
    this.heldUntil = claimedAt + 4 * durations.lease;
  }

  /** UUID, made with the first claim and kept through takeovers. */
  get id(): string {
    return this.claimed.operationId;
  }

  get tenantId(): string {
    return this.claimed.scope.tenantId;
  }

  /** Whether no step is committed yet. */
  get isNew(): boolean {
    return this.point === CREATED;
  }

  /** Whether another attempt has begun it. */
  get takenOver(): boolean {
    return this.claimed.takenOver;
  }

  /** The name of the last committed step; `created` before the first. */
  get recoveryPoint(): string {
    return this.point;
  }

  /** What the last committed step has noted. */
  get data(): unknown {
    return this.noted;
  }

  /** The record with its answer, once the operation is completed. */
  get record(): KeyRecord | undefined {
    return this.completion;
  }

  /** The key for a call to the outside: the same on every attempt, and no other operation's. */
  childKey(step: string): string {
    return childKey(this.claimed, step);
  }

  /**
   * To be called right before a call to the outside.
   *
   * @param milliseconds the longest that the call can take
   * @throws LeaseTooShortError
   */
  requireTime(milliseconds: number): void {
    if (performance.now() + milliseconds > this.leasedUntil) throw new LeaseTooShortError();
  }

  /**
   * One step: the work's writes, the recovery point and what a resume needs become visible together, and the lease is
   * extended, up to a bound. What the work throws leaves nothing behind.
   *
   * @param work returns what to note, as JSON; may run again after a serialization failure
   * @throws LeaseLostError
   */
  async step<T>(recoveryPoint: string, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const begun = performance.now();
    const data = await this.fenced(async (transaction) => {
      const result = await work(transaction);
      transaction.sealWith(stepStatement(this.claimed, recoveryPoint, result, this.durations.lease));
      return result;
    });
    this.point = recoveryPoint;
    this.noted = data;
    this.leasedUntil = Math.min(begun + this.durations.lease, this.heldUntil);
    return data;
  }

  /**
   * The last step: the work's writes and the answer to store become visible together. A refusal that is final (a
   * decline) is returned like any answer.
   *
   * @throws LeaseLostError
   */
  async complete(
    recoveryPoint: string,
    work: (transaction: Transaction) => Promise<StoredResponse>,
  ): Promise<Completion> {
    const { retention } = this.durations;
    const { transaction, response } = await this.fenced(async (transaction) => {
      const response = await work(transaction);
      transaction.sealWith(completeStatement(this.claimed, recoveryPoint, response, retention));
      return { transaction, response };
    });
    this.point = recoveryPoint;
    return this.completedWith(response, expiryOf(transaction.closed.at(-1)!));
  }

  /**
   * Stores a refusal, where nothing but the claim is committed.
   *
   * @returns `undefined` where a step is: then nothing may be stored but what the outside says
   * @throws LeaseLostError
   */
  async refuse(response: StoredResponse): Promise<KeyRecord | undefined> {
    if (!this.isNew) return undefined;
    const rows = await this.write<{ expires_at: Date }>(
      refuseStatement(this.claimed, response, this.durations.retention),
    );
    if (rows.length === 0) throw new LeaseLostError();
    return this.completedWith(response, rows[0]!.expires_at);
  }

  /**
   * Ends an attempt that got no answer to store. Before the first step the key is given free; after it the lease is given
   * back, so that the next attempt goes on at once. Whether the first step is committed is asked of the database, which
   * knows it where the connection was lost at COMMIT.
   *
   * @throws LeaseLostError when it is completed, or somebody else's, by now: there is nothing to give back
   */
  async abandon(): Promise<void> {
    if (this.isNew && (await this.write(releaseStatement(this.claimed))).length > 0) return;
    if ((await this.write(giveBackStatement(this.claimed))).length === 0) throw new LeaseLostError();
  }

  private completedWith(response: StoredResponse, expiresAt: Date): Completion & KeyRecord {
    const { createdAt } = this.claimed;
    return (this.completion = { ...this.seen, createdAt, completed: { response, expiresAt } });
  }

  private fenced<T>(work: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.unitOfWork.run(
      this.tenantId,
      async (transaction) => {
        if (transaction.opened[0]!.rowCount !== 1) throw new LeaseLostError();
        return work(transaction);
      },
      () => ({ statements: [fenceStatement(this.claimed)] }),
    );
  }

  private write<Row extends Record<string, unknown>>({ text, values }: Statement): Promise<Row[]> {
    return this.unitOfWork.run(this.tenantId, (transaction) => transaction.query<Row>(text, values));
  }
}

const operations = new WeakMap<Request, Operation>();

/** Makes it the operation that {@link CurrentOperation} gives the handler of that request. */
export function enterOperation(request: Request, operation: Operation): void {
  operations.set(request, operation);
}

/** The operation that a handler under `@Idempotent({ mode: 'leased' })` is to carry out. */
export const CurrentOperation = createParamDecorator((_: unknown, context: ExecutionContext): Operation => {
  const operation = operations.get(context.switchToHttp().getRequest<Request>());
  if (!operation) throw new Error('Only a route under @Idempotent({ mode: "leased" }) has an operation');
  return operation;
});
