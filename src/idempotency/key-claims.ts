import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { sqlStateOf, SqlState } from '../database/sql-state.js';
import type { Opening, Statement } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { ClaimSlots } from './claim-slots.js';
import type { Execution } from './execution.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';
import type { KeyRecord } from './key-record.js';
import { findStatement, recordOf } from './key-store.js';
import { isRecordOf, type KeyedRequest } from './keyed-request.js';

/** Milliseconds that a claim blocks when it may not wait. */
const AT_ONCE = 5;
/** Milliseconds between two looks at a key that another process holds. */
const SHORTEST_PAUSE = 15;
const LONGEST_PAUSE = 200;
/** Milliseconds that a claim may take beside waiting: a slow disk is no reason to call the key in use. */
const LEAST_STATEMENT_TIME = 1_000;

/** Why there is no execution yet: a transaction holds the key, or the row says that its operation is unfinished. */
export type Pending = 'held' | 'unfinished';

class KeyHeldError extends Error {}

/** How a request gets its key, or waits for whoever has it: the same for operations of either mode. */
@Injectable()
export class KeyClaims {
  private readonly slots: ClaimSlots;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    @Inject(IDEMPOTENCY_OPTIONS) options: IdempotencyOptions,
  ) {
    this.slots = new ClaimSlots(options.poolSize);
  }

  /** The record of that key as it is now, without waiting for anybody. */
  async find({ scope }: KeyedRequest): Promise<KeyRecord | undefined> {
    return recordOf(await this.unitOfWork.readRows(scope.tenantId, findStatement(scope)));
  }

  /**
   * Tries for the key until there is an execution, or a record of one. Waits for whoever has the key until
   * `request.waitUntil`: blocked in the database where half of the pool allows, else by looking now and then without a
   * connection.
   *
   * @param attempt claims by {@link opening} and does the work
   * @returns `undefined` when the key is still in use by then
   */
  async decide(
    request: KeyedRequest,
    attempt: (mayBlock: boolean) => Promise<Execution | Pending>,
  ): Promise<Execution | undefined> {
    let pause = SHORTEST_PAUSE;
    for (let mayBlock = false; ;) {
      const result: Execution | Pending = await attempt(mayBlock).catch(pendingWhenHeld);
      if (typeof result === 'object') return result;
      if (remaining(request) <= 0) return undefined;
      mayBlock = result === 'held' && this.slots.mayWait;
      if (mayBlock) continue;
      for (let leased = true; leased;) {
        await sleep(Math.min(remaining(request), pause * (0.5 + Math.random())));
        pause = Math.min(LONGEST_PAUSE, pause * 1.5);
        const record = await this.find(request);
        if (record?.completed) return { record, executed: false };
        leased = record?.leased === true && remaining(request) > 0; // nothing to claim while its owner works
      }
    }
  }

  /**
   * Sends a claim with BEGIN, and a look at the record behind it, for the case that the claim brings nothing.
   *
   * @param after what travels behind them, in the same flush
   */
  opening(request: KeyedRequest, claim: Statement, mayBlock: boolean, after: Statement): Opening {
    const patience = mayBlock ? Math.max(1, Math.ceil(remaining(request))) : AT_ONCE;
    // lock_timeout counts anew for each lock, and a claim may meet several holders one after another: only
    // statement_timeout makes the wait one deadline.
    const settings = `SET LOCAL lock_timeout = ${patience}; SET LOCAL statement_timeout = ${LEAST_STATEMENT_TIME + patience}`;
    return {
      settings,
      statements: [claim, findStatement(request.scope), after],
      within: (begin) => {
        const held = () => begin().catch(heldInsteadOfTimedOut);
        return mayBlock ? this.slots.useToWait(held) : this.slots.use(held);
      },
    };
  }
}

/** What a claim that brought nothing has found instead: an answer, or that there is none yet. */
export function foundInstead(request: KeyedRequest, found: KeyRecord | undefined): Execution | Pending {
  const isAnswer = found && (found.completed || !isRecordOf(request, found));
  return isAnswer ? { record: found, executed: false } : 'unfinished';
}

function heldInsteadOfTimedOut(error: unknown): never {
  const state = sqlStateOf(error);
  const timedOut = state === SqlState.lockNotAvailable || state === SqlState.queryCanceled;
  throw timedOut ? new KeyHeldError() : error;
}

function pendingWhenHeld(error: unknown): Pending {
  if (error instanceof KeyHeldError) return 'held';
  throw error;
}

function remaining({ waitUntil }: KeyedRequest): number {
  return waitUntil - performance.now();
}
