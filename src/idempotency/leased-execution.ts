import { Inject, Injectable, Logger } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { tell } from '../config/telemetry.js';
import { RESTORE_LIMITS } from '../database/data-source.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { Problem } from '../http/problem.js';
import { OutcomeUnknown } from '../http/problems.js';
import type { Execution, HandledRequest } from './execution.js';
import { FINGERPRINT_VERSION } from './fingerprint.js';
import type { Flight } from './flights.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';
import { foundInstead, KeyClaims, type Pending } from './key-claims.js';
import { recordOf } from './key-store.js';
import type { KeyedRequest } from './keyed-request.js';
import { claimLeaseStatement, leaseOf } from './lease-store.js';
import { LeaseLostError, Operation } from './operation.js';

type Handle = (operation: Operation) => Promise<HandledRequest>;

/**
 * An operation whose effects reach outside of Postgres. Its claim is committed at once, with a lease; the handler does
 * the work in fenced steps and completes the operation together with its answer. How an attempt may end:
 *
 * ```
 * completed                        the answer is stored; every repeat gets it
 * refused before the first step    the refusal is stored by a fenced update, or the key is given free
 * anything else after it           stays open: the lease is given back, and the same request goes on later
 * lease lost                       writes nothing; its client gets what the new owner makes of it
 * ```
 */
@Injectable()
export class LeasedExecution {
  private readonly logger = new Logger(LeasedExecution.name);

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly claims: KeyClaims,
    @Inject(IDEMPOTENCY_OPTIONS) private readonly options: IdempotencyOptions,
  ) {}

  /**
   * Carries the request's operation out, or goes on with it, or finds out what came of it.
   *
   * @param handle does the work and completes the operation, or gives a refusal
   * @returns `undefined` when somebody else still has the key at the end of the request's patience
   */
  async run(request: KeyedRequest, flight: Flight, handle: Handle): Promise<Execution | undefined> {
    try {
      return await this.claims.decide(request, (mayBlock) => this.attempt(request, flight, handle, mayBlock));
    } catch (error) {
      if (!(error instanceof LeaseLostError)) throw error;
      tell('lease-lost', { endpoint: request.scope.endpoint });
      this.logger.warn(`A lease of ${request.scope.endpoint} was lost; its request waits for the new owner`);
      return this.run({ ...request, waitUntil: performance.now() + this.options.wait }, flight, handle);
    }
  }

  private async attempt(
    request: KeyedRequest,
    flight: Flight,
    handle: Handle,
    mayBlock: boolean,
  ): Promise<Execution | Pending> {
    const { scope, fingerprint } = request;
    let claimedAt = 0;
    const { claimed, found } = await this.unitOfWork.run(
      scope.tenantId,
      async (transaction) => {
        const [claim, existing] = transaction.opened;
        const claimed = leaseOf(scope, claim!);
        if (!claimed) transaction.discard();
        return { claimed, found: claimed ? undefined : recordOf(existing!.rows) };
      },
      () => {
        claimedAt = performance.now();
        const claim = claimLeaseStatement(request, uuidv7(), this.options.lease);
        return this.claims.opening(request, claim, mayBlock, { text: RESTORE_LIMITS });
      },
    );
    if (!claimed) return foundInstead(request, found);
    flight.claimedBy(request, claimed.createdAt);
    const seen = { fingerprint, fingerprintVersion: FINGERPRINT_VERSION };
    return this.carryOut(new Operation(this.unitOfWork, claimed, this.options, claimedAt, seen), handle);
  }

  private async carryOut(operation: Operation, handle: Handle): Promise<Execution> {
    let failure: unknown;
    try {
      const { response, refused } = await handle(operation);
      const record = operation.record ?? (refused ? await operation.refuse(response) : undefined);
      if (record) return { record, executed: true, takenOver: operation.takenOver };
      failure = refused ? refusedTooLate(response.status) : new Error('A leased handler must complete its operation');
    } catch (error) {
      // What is completed is completed, whatever went wrong behind it.
      if (operation.record) return { record: operation.record, executed: true, takenOver: operation.takenOver };
      if (error instanceof LeaseLostError) throw error;
      const tooLate = !operation.isNew && error instanceof Problem && error.type.status < 500;
      failure = tooLate ? refusedTooLate(error.type.status) : error;
    }
    await operation.abandon().catch((error: unknown) => {
      if (error instanceof LeaseLostError) throw error; // there is an answer, or somebody who will have one
      this.logger.warn(`An operation could not be given back and stays until its lease lapses: ${String(error)}`);
    });
    throw failure;
  }
}

/** A refusal of our own is no answer once something may have happened outside. */
function refusedTooLate(status: number): Problem {
  const detail = `The operation is under way and cannot be refused any more (${status}). Send the request again.`;
  return new Problem(OutcomeUnknown, detail, { headers: { 'Retry-After': '1' } });
}
