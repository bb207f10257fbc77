import { HttpException } from '@nestjs/common';

/**
 * A kind of refusal that clients can tell apart by its code (RFC 9457). Its page under `/problems/<code>` shows
 * `explanation` and `remedy`.
 */
export interface ProblemType {
  readonly code: string;
  readonly status: number;
  readonly title: string;
  /**
   * What an idempotency key remembers of it. `stored`: the answer is the same however often the request is repeated, so
   * it is replayed. `released`: it may pass, so that a retry runs. `kept-open`: something may have happened outside, so
   * that a retry goes on where this attempt stopped.
   */
  readonly underKey: 'stored' | 'released' | 'kept-open';
  readonly explanation: string;
  readonly remedy: string;
}

export interface ProblemContent {
  /** Members beside the standard ones, such as the id of the resource that a client needs next. */
  readonly members?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cause?: unknown;
}

const types = new Map<string, ProblemType>();

/**
 * Declares a kind of refusal and its page.
 *
 * @example
 * export const OrderNotEditable = problemType({ code: 'order-not-editable', status: 409, ... });
 * throw new Problem(OrderNotEditable, 'The order is cancelled.', { members: { orderId } });
 */
export function problemType(type: ProblemType): ProblemType {
  if (types.has(type.code)) throw new Error(`The problem code ${type.code} is declared twice`);
  types.set(type.code, type);
  return type;
}

/** The declared kind with that code. */
export function findProblemType(code: string): ProblemType | undefined {
  return types.get(code);
}

/** Every declared kind. */
export function problemTypes(): ProblemType[] {
  return [...types.values()];
}

/** A refusal: throw it anywhere in a request and the client gets the problem document. */
export class Problem extends HttpException {
  constructor(
    readonly type: ProblemType,
    readonly detail: string,
    readonly content: ProblemContent = {},
  ) {
    super(detail, type.status, { cause: content.cause });
    this.name = 'Problem';
  }
}
