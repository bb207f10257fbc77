import { type Answer, attempt, NoAnswer, type WireRequest } from './attempt.js';
import type { Timekeeper } from './clock.js';
import {
  CallAbortedError,
  type OrdersClientError,
  OutcomeUnknownError,
  RefusedError,
  RetentionPassedError,
  RetriesExhaustedError,
} from './errors.js';
import { type Expected, isBeforeTheKey, judge } from './judgement.js';
import type { CallEvent, CompleteOptions, Hooks } from './options.js';
import { retryAfterMs, waitMs } from './waiting.js';

/** What is to be sent, and what is known of it. */
export interface Call<T> {
  readonly operation: string;
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly key?: string | undefined;
  readonly expected: Expected<T>;
  readonly signal?: AbortSignal | undefined;
  /** An attempt of an earlier call, or an earlier process, may have had its effect. */
  readonly sentBefore?: boolean;
  /** Asked before each attempt: why it must not be sent any more. */
  readonly whyTooLate?: () => string | undefined;
  /** Told of each answer of the service that is not the last. */
  readonly learn?: (answer: Answer) => Promise<void>;
}

/**
 * Sends a call until there is a final answer or a bound is reached. Repeats only what is safe to repeat: GET, PUT and
 * DELETE (RFC 9110, section 9.2.2), whatever has an `Idempotency-Key`, and PATCH with `If-Match`, which the service
 * recognises. Everything else goes out once.
 *
 * @returns what the call expects
 * @throws OrdersClientError of the kind that fits; TypeError for a path that does not begin with a slash; whatever `apiKey`
 * throws, and `learn`
 */
export async function send<T>(call: Call<T>, options: CompleteOptions, time: Timekeeper): Promise<T> {
  const { maxAttempts, deadlineMs, attemptTimeoutMs, maxBodyBytes, hooks } = options;
  // Behind a host name, `@elsewhere.example` would be another host.
  if (!call.path.startsWith('/')) throw new TypeError('A path begins with a slash');
  const start = time.monotonic();
  const left = (): number => deadlineMs - (time.monotonic() - start);
  const most = isRepeatable(call) ? maxAttempts : 1;
  const changes = call.method !== 'GET';
  let mayHaveHappened = call.sentBefore ?? false;
  let attempts = 0;
  const facts = (cause?: unknown) => ({ attempts, key: call.key, cause });
  const event = (): CallEvent => {
    const { operation, method, path, key } = call;
    return { operation, method, path, key, attempt: attempts };
  };
  const giveUp = (error: OrdersClientError): OrdersClientError => {
    tell(hooks, 'onGiveUp', { ...event(), error });
    return error;
  };

  for (;;) {
    if (call.signal?.aborted) throw giveUp(new CallAbortedError(mayHaveHappened, facts(call.signal.reason)));
    const tooLate = call.whyTooLate?.();
    if (tooLate !== undefined) throw giveUp(new RetentionPassedError(tooLate, facts()));
    const request = await requestOf(call, options);
    attempts += 1;
    tell(hooks, 'onAttempt', event());
    const timeoutMs = Math.max(1, Math.min(attemptTimeoutMs, left()));
    const answer = await attempt(options.fetch, request, { timeoutMs, maxBodyBytes, signal: call.signal });

    let reason: string;
    let askedMs: number | undefined;
    if (answer instanceof NoAnswer) {
      mayHaveHappened ||= changes && answer.mayHaveHappened;
      if (call.signal?.aborted) throw giveUp(new CallAbortedError(mayHaveHappened, facts(call.signal.reason)));
      reason = answer.reason;
    } else {
      const judgement = judge(answer, call.expected, mayHaveHappened);
      const ofService = judgement.verdict !== 'retry' || judgement.ofService;
      if (ofService) time.hear(answer.headers);
      if (judgement.verdict === 'success') {
        tell(hooks, 'onSuccess', event());
        return judgement.value;
      }
      if (judgement.verdict === 'final') {
        const { problem } = judgement;
        if (call.key !== undefined && mayHaveHappened && isBeforeTheKey(problem)) {
          throw giveUp(new OutcomeUnknownError(`${problem.status} ${problem.code}`, facts(), problem));
        }
        throw giveUp(new RefusedError(problem, call.key === undefined && mayHaveHappened, facts()));
      }
      mayHaveHappened ||= changes && judgement.mayHaveHappened;
      reason = judgement.reason;
      askedMs = retryAfterMs(answer.headers, time.local());
      if (ofService) await call.learn?.(answer);
    }

    const wait = waitMs(attempts, askedMs, options, options.random);
    if (attempts >= most || wait >= left()) {
      const cause = answer instanceof NoAnswer ? answer.cause : undefined;
      const GaveUp = mayHaveHappened ? OutcomeUnknownError : RetriesExhaustedError;
      throw giveUp(new GaveUp(reason, facts(cause)));
    }
    tell(hooks, 'onRetry', { ...event(), reason, waitMs: wait });
    await options.sleep(wait, call.signal);
  }
}

function isRepeatable({ method, key, headers }: Call<unknown>): boolean {
  return (
    ['GET', 'PUT', 'DELETE'].includes(method) || key !== undefined || (method === 'PATCH' && 'If-Match' in headers)
  );
}

async function requestOf(call: Call<unknown>, { baseUrl, apiKey }: CompleteOptions): Promise<WireRequest> {
  const { method, path, headers, body, key } = call;
  return {
    url: baseUrl + path,
    method,
    headers: {
      Accept: 'application/json, application/problem+json',
      Authorization: `Bearer ${typeof apiKey === 'string' ? apiKey : await apiKey()}`,
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...(key !== undefined && { 'Idempotency-Key': key }),
      ...headers,
    },
    body,
  };
}

/** Tells a hook, and lets nothing of it get in the way. */
export function tell<Name extends keyof Hooks>(
  hooks: Hooks,
  name: Name,
  event: Parameters<NonNullable<Hooks[Name]>>[0],
): void {
  try {
    (hooks[name] as ((told: typeof event) => void) | undefined)?.(event);
  } catch {
    // a log that fails is no reason to stop, let alone to send twice
  }
}
