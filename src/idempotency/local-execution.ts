import { Inject, Injectable } from '@nestjs/common';
import { RESTORE_LIMITS } from '../database/data-source.js';
import type { Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import type { Execution, HandledRequest } from './execution.js';
import { FINGERPRINT_VERSION } from './fingerprint.js';
import type { Flight } from './flights.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';
import { foundInstead, KeyClaims, type Pending } from './key-claims.js';
import { claimOf, claimStatement, expiryOf, recordOf, recordStatement } from './key-store.js';
import type { KeyedRequest } from './keyed-request.js';

const WORK = 'work';

/**
 * Claim, effect, event and answer of an operation whose effects all live in Postgres, in one transaction:
 *
 * ```
 * BEGIN; bounded lock wait; claim; wait back to normal; SAVEPOINT work     one flush
 * the handler's statements
 * record the answer; COMMIT                                                one flush
 * ```
 *
 * A refusal is recorded under the claim that is still held: `ROLLBACK TO work` first. Rolling everything back and then
 * recording it would let a waiting duplicate have the key in between, succeed, and one key would have two answers.
 */
@Injectable()
export class LocalExecution {
  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly claims: KeyClaims,
    @Inject(IDEMPOTENCY_OPTIONS) private readonly options: IdempotencyOptions,
  ) {}

  /**
   * Executes the request under its key, or finds out what came of the first one.
   *
   * @param handle does the work and gives the answer to record; what it throws is rolled back together with the claim
   * @returns `undefined` when the key is still in use at the end of the request's patience
   */
  async run(
    request: KeyedRequest,
    flight: Flight,
    handle: (transaction: Transaction) => Promise<HandledRequest>,
  ): Promise<Execution | undefined> {
    return this.claims.decide(request, (mayBlock) => this.attempt(request, flight, handle, mayBlock));
  }

  private async attempt(
    request: KeyedRequest,
    flight: Flight,
    handle: (transaction: Transaction) => Promise<HandledRequest>,
    mayBlock: boolean,
  ): Promise<Execution | Pending> {
    const { scope, fingerprint } = request;
    const savepoint = { text: `${RESTORE_LIMITS}; SAVEPOINT ${WORK}` };
    const attempt = await this.unitOfWork.run(
      scope.tenantId,
      async (transaction) => {
        const [claimed, existing] = transaction.opened;
        const claim = claimOf(claimed!);
        if (!claim) {
          transaction.discard();
          return { found: recordOf(existing!.rows) };
        }
        flight.claimedBy(request, claim.createdAt);
        const { response, refused } = await handle(transaction);
        if (refused) transaction.rollbackTo(WORK);
        transaction.sealWith(recordStatement(scope, claim.version, response, this.options.retention));
        return { transaction, response, createdAt: claim.createdAt };
      },
      () => this.claims.opening(request, claimStatement(request), mayBlock, savepoint),
    );
    if (!attempt.transaction) return foundInstead(request, attempt.found);
    const { transaction, response, createdAt } = attempt;
    const completed = { response, expiresAt: expiryOf(transaction.closed.at(-1)!) };
    return { record: { fingerprint, fingerprintVersion: FINGERPRINT_VERSION, createdAt, completed }, executed: true };
  }
}
