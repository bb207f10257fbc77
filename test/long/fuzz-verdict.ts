import { type FuzzCase } from './fuzz-case.js';
import { type Outcome } from './fuzz-connection.js';
import { type FuzzRequest } from './fuzz-request.js';
import { type RawAnswer } from './raw-answers.js';

/** Outcomes under a key that are kept and replayed, beside success. */
const STORED = ['validation-failed', 'duplicate-external-ref', 'order-not-editable'];

/** The `code` of a problem document; undefined where there is none. */
export function codeOf(answer: RawAnswer): string | undefined {
  const { code } = documentOf(answer);
  return typeof code === 'string' ? code : undefined;
}

function documentOf({ body }: RawAnswer): Record<string, unknown> {
  try {
    return JSON.parse(body.toString()) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** Everything that is wrong with the answers of a case, in words. */
export function faultsOf(testCase: FuzzCase, { answers, trouble }: Outcome): string[] {
  const faults = trouble === undefined ? [] : [trouble];
  answers.forEach((answer, n) => {
    const isHead = testCase.requests[n]?.method === 'HEAD';
    faults.push(...faultsOfAnswer(answer, isHead).map((fault) => `answer ${n + 1} (${answer.status}): ${fault}`));
  });
  if (testCase.sound && answers.length > testCase.requests.length) faults.push('more answers than requests');
  for (const [request, answer] of attributed(testCase, answers)) {
    if (!request.authorized && answer.status < 400 && request.target.startsWith('/v1/')) {
      faults.push(`${request.method} ${request.target} was answered ${answer.status} without login`);
    }
  }
  return faults;
}

function faultsOfAnswer(answer: RawAnswer, isHead: boolean): string[] {
  const { status, headers, body } = answer;
  const faults: string[] = [];
  if (status >= 500) faults.push(`a failure of the service: ${body.toString().slice(0, 300)}`);
  if (/node_modules|\bat .*\.(ts|js):\d/.test(body.subarray(0, 5_000).toString()) && status >= 400) {
    faults.push('it tells something of the inside');
  }
  if (status === 201 && (!headers.location || !headers.etag)) faults.push('201 without Location or ETag');
  if (status < 400) return faults;
  if (!headers['content-type']?.startsWith('application/problem+json')) {
    faults.push(`no problem document but ${headers['content-type'] ?? 'nothing'}`);
  } else if (!isHead || body.length > 0) {
    const { type, code, status: told } = documentOf(answer);
    if (typeof code !== 'string' || told !== status || !String(type).endsWith(`/problems/${code}`)) {
      faults.push(`an incomplete problem document: ${body.toString().slice(0, 500)}`);
    }
  }
  return faults;
}

/**
 * The answers of which it is certain to which request they belong: up to and with the first request that is not sound,
 * because after it the service may see other borders between requests than were meant.
 */
export function attributed(testCase: FuzzCase, answers: readonly RawAnswer[]): [FuzzRequest, RawAnswer][] {
  const { requests } = testCase;
  const firstUnsound = requests.findIndex(({ sound }) => !sound);
  const certain = firstUnsound === -1 ? requests.length : firstUnsound + 1;
  return answers.slice(0, certain).map((answer, n) => [requests[n]!, answer]);
}

/** Whether the answer says that the service keeps the request's key. */
export function keepsKey({ method }: FuzzRequest, answer: RawAnswer): boolean {
  if (method !== 'POST' && method !== 'PATCH') return false;
  return answer.status < 300 || STORED.includes(codeOf(answer) ?? '');
}

/** How many orders the unanswered requests of a case may have made. */
export function unknownOrders({ requests, manner }: FuzzCase, { answers }: Outcome): number {
  if ((manner === 'half' || manner === 'left') && requests.every(({ sound }) => sound)) return 0; // never sent whole
  const unanswered = requests.slice(Math.min(answers.length, requests.length));
  return unanswered.filter(({ bytes }) => /P(OS|U)T/.test(bytes.subarray(0, 20).toString('latin1'))).length;
}

/** What is needed to see it again. */
export function describeCase(seed: number, testCase: FuzzCase): string {
  const { index, manner, rude, pieces } = testCase;
  const bytes = Buffer.concat(pieces).toString('latin1');
  const shown = bytes.length > 1_500 ? `${bytes.slice(0, 1_500)}… (${bytes.length} bytes)` : bytes;
  return `FUZZ_SEED=${seed} FUZZ_ONLY=${index} (${manner}${rude ? ', rude' : ''}): ${JSON.stringify(shown)}`;
}

/** The answers as they came, for a case that is looked at alone. */
export function describeOutcome({ answers, trouble }: Outcome): string {
  const shown = answers.map(({ status, headers, body }) => {
    return `${status} ${JSON.stringify(headers)} ${JSON.stringify(body.subarray(0, 300).toString())}`;
  });
  return [...shown, trouble ?? 'no trouble'].join('\n');
}
