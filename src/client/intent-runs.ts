import { type Timekeeper } from './clock.js';
import { IntentConflictError, OrdersClientError, RefusedError, RetentionPassedError } from './errors.js';
import type { Intent, KeyedOperation } from './intent.js';
import { anything, type Expected, resource } from './judgement.js';
import type { CompleteOptions } from './options.js';
import type { Outcome, SettledOutcome, Values } from './outcome.js';
import { expiryIn, whyTooLate } from './retention.js';
import { send, tell } from './sending.js';

const EXPECTED: { readonly [Operation in KeyedOperation]: Expected<Values[Operation]> } = {
  createOrder: resource(201),
  updateOrder: resource(200),
  payOrder: resource(201),
  refundPayment: resource(201),
  request: anything,
};

/** The course of an intent: stored, sent until there is a final answer, settled, forgotten. */
export class IntentRuns {
  /** Keys that this client is at. */
  private readonly running = new Set<string>();

  constructor(
    private readonly options: CompleteOptions,
    private readonly time: Timekeeper,
  ) {}

  /**
   * Runs an intent to its end.
   *
   * @param mayBeStored its key comes from the caller, who may have used it before: then the stored one is gone on with
   * @param sentBefore the caller knows that it may have been sent
   * @throws IntentConflictError, and what `send` throws; whatever the store or `settle` throws
   */
  async run<Operation extends KeyedOperation>(
    intent: Intent & { readonly operation: Operation },
    {
      mayBeStored,
      sentBefore,
      signal,
    }: { mayBeStored: boolean; sentBefore: boolean; signal?: AbortSignal | undefined },
  ): Promise<Values[Operation]> {
    return this.alone(intent.key, async () => {
      const stored = mayBeStored ? await this.options.store.get(intent.key) : undefined;
      if (stored && !isSame(stored, intent)) {
        throw new IntentConflictError('The key is stored with another request', intent.key);
      }
      if (!stored) await this.options.store.put(intent);
      const outcome = await this.settled(stored ?? intent, sentBefore || stored !== undefined, signal);
      await this.forget(intent.key);
      if (outcome.status === 'refused') throw outcome.error;
      return outcome.value as Values[Operation];
    });
  }

  /**
   * Goes on with every stored intent that is not being sent already. Each is forgotten when the caller asks for the next
   * outcome, not before; who stops in the middle gets the rest the next time.
   *
   * @param concurrency how many are sent at once
   * @throws whatever the store or `settle` throws
   */
  async *resume({
    signal,
    concurrency,
  }: {
    signal?: AbortSignal | undefined;
    concurrency: number;
  }): AsyncGenerator<Outcome> {
    const { intents, damaged } = await this.options.store.list();
    await this.askTheTime(intents, signal);
    for (const entry of damaged) yield { status: 'damaged', damaged: entry };
    const waiting = [...intents];
    const stop = new AbortController();
    const abort = (): void => stop.abort(signal?.reason);
    signal?.addEventListener('abort', abort);
    if (signal?.aborted) abort();
    const underway = new Map<string, Promise<Exclude<Outcome, { status: 'damaged' }>>>();
    try {
      while (waiting.length > 0 || underway.size > 0) {
        while (waiting.length > 0 && underway.size < concurrency) {
          const intent = waiting.shift()!;
          if (this.running.has(intent.key)) continue;
          this.running.add(intent.key);
          const outcome = this.outcomeOf(intent, stop.signal);
          outcome.catch(() => undefined); // told where it is awaited
          underway.set(intent.key, outcome);
        }
        if (underway.size === 0) break;
        const outcome = await Promise.race(underway.values());
        const { key } = outcome.intent;
        underway.delete(key);
        try {
          yield outcome;
          if (outcome.status === 'succeeded' || outcome.status === 'refused') await this.forget(key);
        } finally {
          this.running.delete(key);
        }
      }
    } finally {
      signal?.removeEventListener('abort', abort);
      stop.abort();
      await Promise.allSettled(underway.values());
      for (const key of underway.keys()) this.running.delete(key);
    }
  }

  /** Where this machine's clock was changed since an intent was stored, the server's tells how old it is. */
  private async askTheTime(intents: readonly Intent[], signal: AbortSignal | undefined): Promise<void> {
    const comparable = intents.find(({ serverOffsetMs }) => serverOffsetMs !== undefined);
    if (!comparable || this.time.atServer() !== undefined) return;
    const path = `/v1/idempotency-keys/${encodeURIComponent(comparable.key)}`;
    const call = { operation: 'getIdempotencyKey', method: 'GET', path, headers: {}, expected: anything, signal };
    // Whatever is wrong is met again with the intents themselves.
    await send(call, { ...this.options, maxAttempts: 1 }, this.time).catch(() => undefined);
  }

  /** Forgets an intent whose outcome somebody found out otherwise. */
  async discard(key: string): Promise<void> {
    await this.alone(key, () => this.options.store.delete(key));
  }

  private async outcomeOf(intent: Intent, signal: AbortSignal): Promise<Exclude<Outcome, { status: 'damaged' }>> {
    try {
      return await this.settled(intent, true, signal);
    } catch (error) {
      if (error instanceof RetentionPassedError) return { status: 'expired', intent, error };
      if (error instanceof OrdersClientError) return { status: 'unfinished', intent, error };
      throw error;
    }
  }

  /** Sends it and lets the caller write down what came of it. */
  private async settled(first: Intent, sentBefore: boolean, signal: AbortSignal | undefined): Promise<SettledOutcome> {
    const { operation, method, path, headers, body, key } = first;
    let intent = first;
    const late = () => whyTooLate(intent, this.time, this.options);
    const learn = async (answer: { readonly headers: Headers }): Promise<void> => {
      const expiresAt = expiryIn(answer.headers) ?? intent.expiresAt;
      // Of an intent from another process it is not known how far this machine's clock was off at that time.
      const offset = sentBefore && expiresAt === undefined ? undefined : this.time.serverOffset();
      const serverOffsetMs = intent.serverOffsetMs ?? offset;
      if (expiresAt === intent.expiresAt && serverOffsetMs === intent.serverOffsetMs) return;
      intent = { ...intent, ...(expiresAt && { expiresAt }), ...(serverOffsetMs !== undefined && { serverOffsetMs }) };
      await this.options.store.put(intent);
    };
    const expected = EXPECTED[operation] as Expected<never>;
    const call = { operation, method, path, headers, body, key, expected, signal, sentBefore, whyTooLate: late, learn };
    let outcome: SettledOutcome;
    try {
      const value = await send(call, this.options, this.time);
      outcome = { status: 'succeeded', operation, intent, value };
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      outcome = { status: 'refused', operation, intent, error };
    }
    await this.options.settle(outcome);
    return outcome;
  }

  private async forget(key: string): Promise<void> {
    try {
      await this.options.store.delete(key);
    } catch (error) {
      tell(this.options.hooks, 'onStoreError', { key, error });
    }
  }

  private async alone<T>(key: string, work: () => Promise<T>): Promise<T> {
    if (this.running.has(key)) throw new IntentConflictError('The key is being sent by this client already', key);
    this.running.add(key);
    try {
      return await work();
    } finally {
      this.running.delete(key);
    }
  }
}

function isSame(a: Intent, b: Intent): boolean {
  const essence = ({ operation, method, path, headers, body }: Intent): string =>
    JSON.stringify([operation, method, path, Object.entries(headers).sort(), body]);
  return essence(a) === essence(b);
}
