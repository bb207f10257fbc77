import { type Fault, type Operation, takeFault } from './faults.js';
import { findReply, keepReply, type KeyedRequest } from './idempotency-keys.js';
import { recordCall } from './ledger.js';
import { type Reply, Refusal } from './reply.js';
import type { SandboxDatabase, Sql } from './sandbox-database.js';

/** A call that moves money, or tries to, as its request was understood. */
export interface CreateCall {
  readonly operation: Operation;
  /** Undefined where no key was sent, and at the bank, which knows none. */
  readonly keyed?: KeyedRequest | undefined;
  /** Does it. What it answers is final, a refusal too; when it throws, nothing happened. */
  execute(sql: Sql): Promise<Reply>;
  /** The provider's words for a fault of its own. */
  failure(status: 500 | 503): Reply;
}

/**
 * Every call that moves money goes through here: the key, an armed fault, the effect, the answer under the key and the
 * note that there was a call, all in one transaction, so that a crash leaves none of them or all.
 */
export class CreateCalls {
  constructor(
    private readonly database: SandboxDatabase,
    /** Events may be due. */
    private readonly wake: () => void,
  ) {}

  /**
   * @param understand reads the request; what it throws is answered without anything being stored
   */
  async answer(operation: Operation, key: string | null, understand: () => CreateCall): Promise<Reply> {
    try {
      const call = understand();
      const reply = await this.database.transaction((sql) => answerIn(sql, call, key));
      this.wake();
      return reply;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      await recordCall(this.database, operation, key, error.reply.status);
      return error.reply;
    }
  }
}

async function answerIn(sql: Sql, call: CreateCall, key: string | null): Promise<Reply> {
  const kept = call.keyed && (await findReply(sql, call.keyed));
  // A 500 is what an execution ends with; what is answered from the key is no execution.
  const fault = await takeFault(sql, call.operation, kept ? 'error-500' : undefined);
  const reply = under(fault, await replyTo(sql, call, kept, fault));
  await recordCall(sql, call.operation, key, reply.instead ? null : reply.status);
  return reply;
}

async function replyTo(sql: Sql, call: CreateCall, kept: Reply | undefined, fault: Fault | undefined): Promise<Reply> {
  if (fault?.fault === 'error-503' || fault?.fault === 'reset-connection') return call.failure(503);
  if (kept) return kept;
  const done = await call.execute(sql);
  const reply = fault?.fault === 'error-500' ? call.failure(500) : done;
  if (call.keyed) await keepReply(sql, call.keyed, reply, fault?.delayMs ?? 0);
  return reply;
}

/** What the fault makes of a reply on its way. */
function under(fault: Fault | undefined, reply: Reply): Reply {
  if (!fault) return reply;
  const { delayMs } = fault;
  if (fault.fault === 'drop-response') return { ...reply, delayMs, instead: 'close' };
  if (fault.fault === 'reset-connection') return { ...reply, delayMs, instead: 'reset' };
  return { ...reply, delayMs };
}
