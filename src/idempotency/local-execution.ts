import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { RESTORE_LIMITS } from '../database/data-source.js';
import { sqlStateOf, SqlState } from '../database/sql-state.js';
import type { Opening, Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { ClaimSlots } from './claim-slots.js';
import { FINGERPRINT_VERSION } from './fingerprint.js';
import type { Flight } from './flights.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';
import type { KeyRecord, StoredResponse } from './key-record.js';
import { claimOf, claimStatement, expiryOf, findStatement, recordOf, recordStatement } from './key-store.js';
import { isRecordOf, type KeyedRequest } from './keyed-request.js';

/** Milliseconds that a claim blocks when it may not wait. */
const AT_ONCE = 5;
/** Milliseconds between two looks at a key that another process holds. */
const SHORTEST_PAUSE = 15;
const LONGEST_PAUSE = 200;
/** Milliseconds that a claim may take beside waiting: a slow disk is no reason to call the key in use. */
const LEAST_STATEMENT_TIME = 1_000;

const WORK = 'work';

/** What came of trying for the key. */
export interface Execution {
  readonly record: KeyRecord;
  /** Whether this very request did the work, rather than finding it done. */
  readonly executed: boolean;
}

/** Why there is no execution yet: a transaction holds the key, or the row says that its operation is unfinished. */
type Pending = 'held' | 'unfinished';

class KeyHeldError extends Error {}

/** What the handler made of a request: the answer to record, and whether it is a refusal whose effects are undone. */
export interface HandledRequest {
  readonly response: StoredResponse;
  readonly refused: boolean;
}

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
  private readonly slots: ClaimSlots;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    @Inject(IDEMPOTENCY_OPTIONS) private readonly options: IdempotencyOptions,
  ) {
    this.slots = new ClaimSlots(options.poolSize);
  }

  /** The record of that key as it is now, without waiting for anybody. */
  async find({ scope }: KeyedRequest): Promise<KeyRecord | undefined> {
    return recordOf(await this.unitOfWork.readRows(scope.tenantId, findStatement(scope)));
  }

  /**
   * Executes the request under its key, or finds out what came of the first one. Waits for a transaction that holds the
   * key until `request.waitUntil`: blocked in the database where half of the pool allows, else by looking now and then
   * without a connection.
   *
   * @param handle does the work and gives the answer to record; what it throws is rolled back together with the claim
   * @returns `undefined` when the key is still in use by then
   */
  async run(
    request: KeyedRequest,
    flight: Flight,
    handle: (transaction: Transaction) => Promise<HandledRequest>,
  ): Promise<Execution | undefined> {
    let pause = SHORTEST_PAUSE;
    for (let mayBlock = false; ;) {
      const result = await this.attempt(request, flight, handle, mayBlock);
      if (typeof result === 'object') return result;
      if (remaining(request) <= 0) return undefined;
      mayBlock = result === 'held' && this.slots.mayWait;
      if (mayBlock) continue;
      await sleep(Math.min(remaining(request), pause * (0.5 + Math.random())));
      pause = Math.min(LONGEST_PAUSE, pause * 1.5);
      const record = await this.find(request);
      if (record?.completed) return { record, executed: false };
    }
  }

  private async attempt(
    request: KeyedRequest,
    flight: Flight,
    handle: (transaction: Transaction) => Promise<HandledRequest>,
    mayBlock: boolean,
  ): Promise<Execution | Pending> {
    const { scope, fingerprint } = request;
    try {
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
        () => this.opening(request, mayBlock),
      );
      if (attempt.transaction) {
        const { transaction, response, createdAt } = attempt;
        const completed = { response, expiresAt: expiryOf(transaction.closed.at(-1)!) };
        const record = { fingerprint, fingerprintVersion: FINGERPRINT_VERSION, createdAt, completed };
        return { record, executed: true };
      }
      const { found } = attempt;
      const isAnswer = found && (found.completed || !isRecordOf(request, found));
      return isAnswer ? { record: found, executed: false } : 'unfinished';
    } catch (error) {
      if (error instanceof KeyHeldError) return 'held';
      throw error;
    }
  }

  private opening(request: KeyedRequest, mayBlock: boolean): Opening {
    const patience = mayBlock ? Math.max(1, Math.ceil(remaining(request))) : AT_ONCE;
    // lock_timeout counts anew for each lock, and a claim may meet several holders one after another: only
    // statement_timeout makes the wait one deadline.
    const settings = `SET LOCAL lock_timeout = ${patience}; SET LOCAL statement_timeout = ${LEAST_STATEMENT_TIME + patience}`;
    return {
      settings,
      statements: [
        claimStatement(request),
        findStatement(request.scope),
        { text: `${RESTORE_LIMITS}; SAVEPOINT ${WORK}` },
      ],
      within: (begin) => {
        const claim = () => begin().catch(heldInsteadOfTimedOut);
        return mayBlock ? this.slots.useToWait(claim) : this.slots.use(claim);
      },
    };
  }
}

function heldInsteadOfTimedOut(error: unknown): never {
  const state = sqlStateOf(error);
  const timedOut = state === SqlState.lockNotAvailable || state === SqlState.queryCanceled;
  throw timedOut ? new KeyHeldError() : error;
}

function remaining({ waitUntil }: KeyedRequest): number {
  return waitUntil - performance.now();
}
