import type { Answer } from './attempt.js';
import type { Problem } from './api-types.js';

/** Reads a success out of an answer; undefined when it is none. */
export type Expected<T> = (answer: Answer, earlierMayHaveHappened: boolean) => { readonly value: T } | undefined;

/** What an answer means for its call. */
export type Judgement<T> =
  | { readonly verdict: 'success'; readonly value: T }
  | { readonly verdict: 'final'; readonly problem: Problem }
  | {
      readonly verdict: 'retry';
      readonly mayHaveHappened: boolean;
      readonly reason: string;
      /** Whether the service said so, and not something in between. */
      readonly ofService: boolean;
    };

/** Refusals that may pass, and whether the refused request may have had an effect nevertheless. */
const PASSING_STATUSES: ReadonlyMap<number, boolean> = new Map([
  [408, true], // said by whoever stands between as well, after the request went on
  [425, false], // RFC 8470, section 5.2: not processed
  [429, false],
]);
const PASSING_CODES: ReadonlyMap<string, boolean> = new Map([
  ['idempotency-key-in-use', true], // an earlier attempt still runs
  ['payment-in-progress', false], // another payment is being settled; after that there is a lasting answer
  ['service-unavailable', false], // proven not to have happened
]);

/**
 * Only what says so is a success or final: a success reads as what was asked for, a refusal is a problem document. All
 * else (a proxy's page, a redirect, half an answer, a 2xx that does not parse) says nothing about what happened.
 */
export function judge<T>(answer: Answer, expected: Expected<T>, earlierMayHaveHappened: boolean): Judgement<T> {
  const success = expected(answer, earlierMayHaveHappened);
  if (success) return { verdict: 'success', value: success.value };
  const problem = problemIn(answer);
  const name = problem ? `${answer.status} ${problem.code}` : String(answer.status);
  const passes = PASSING_CODES.get(problem?.code ?? '') ?? PASSING_STATUSES.get(answer.status);
  // No proxy knows when a key expires: a success that does not parse has it, a login page has not.
  const ofService = problem !== undefined || answer.headers.has('idempotency-expires');
  if (passes !== undefined) return { verdict: 'retry', mayHaveHappened: passes, reason: name, ofService };
  if (answer.status >= 500) return { verdict: 'retry', mayHaveHappened: true, reason: name, ofService };
  if (problem) return { verdict: 'final', problem };
  return { verdict: 'retry', mayHaveHappened: true, reason: `${name} does not read as an answer`, ofService };
}

/**
 * Whether a refusal comes before the key is looked at, so that it says nothing about earlier attempts: an API key that was
 * revoked meanwhile, a route that a proxy does not know.
 */
export function isBeforeTheKey({ status, code }: Problem): boolean {
  return [401, 403, 404, 405, 413, 415].includes(status) || (status === 400 && code !== 'validation-failed');
}

/** One resource: a JSON object with an `id`. */
export function resource<T extends { id: string }>(...statuses: number[]): Expected<T> {
  return json(statuses, (body) => typeof body.id === 'string');
}

/** One page: a JSON object with a list `data`. */
export function page<T extends { data: unknown[] }>(): Expected<T> {
  return json(
    [200],
    (body) => Array.isArray(body.data) && ['string', 'undefined', 'object'].includes(typeof body.nextCursor),
  );
}

/** Any JSON with a status of success, or no content at all (204). */
export const anything: Expected<unknown> = (answer) => {
  if (answer.status === 204) return { value: undefined };
  return answer.status >= 200 && answer.status < 300 ? parsed(answer, 'application/json') : undefined;
};

/** Gone: 204, or 404 where an earlier attempt may have been what removed it. */
export const gone: Expected<void> = (answer, earlierMayHaveHappened) => {
  const goneBefore = earlierMayHaveHappened && problemIn(answer)?.code === 'not-found';
  return answer.status === 204 || goneBefore ? { value: undefined } : undefined;
};

function json<T>(statuses: number[], fits: (body: Record<string, unknown>) => boolean): Expected<T> {
  return (answer) => {
    if (!statuses.includes(answer.status)) return undefined;
    const body = parsed(answer, 'application/json')?.value;
    const isObject = typeof body === 'object' && body !== null && !Array.isArray(body);
    return isObject && fits(body as Record<string, unknown>) ? { value: body as T } : undefined;
  };
}

/** A problem document (RFC 9457) that agrees with the answer's status. */
function problemIn(answer: Answer): Problem | undefined {
  if (answer.status < 400) return undefined;
  const body = parsed(answer, 'application/problem+json')?.value as Partial<Problem> | null | undefined;
  const isProblem = typeof body?.code === 'string' && body.status === answer.status;
  return isProblem ? (body as Problem) : undefined;
}

function parsed({ headers, text }: Answer, type: string): { value: unknown } | undefined {
  const [contentType = ''] = (headers.get('content-type') ?? '').split(';');
  if (contentType.trim().toLowerCase() !== type) return undefined;
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
