import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { etagOf, ifMatchHolds, ifNoneMatchHolds } from './preconditions.js';
import { Problem } from './problem.js';
import { PreconditionFailed, PreconditionRequired } from './problems.js';

/** The conditions that a request sets (RFC 9110, section 13). */
export class Conditions {
  constructor(
    private readonly ifMatch: string | undefined,
    private readonly ifNoneMatch: string | undefined,
  ) {}

  /** Whether the request sets a condition at all. */
  get any(): boolean {
    return this.ifMatch !== undefined || this.ifNoneMatch !== undefined;
  }

  /** @throws Problem `precondition-required` when the request does not name a version */
  requireVersion(): void {
    if (this.ifMatch !== undefined) return;
    throw new Problem(PreconditionRequired, 'Send If-Match with the ETag of the version you mean to change.');
  }

  /**
   * If-Match holds for this version; `undefined`: there is no such resource. Without the header everything holds.
   *
   * @throws Problem `precondition-failed` with the current ETag
   */
  checkVersion(version: number | undefined): void {
    const etag = version === undefined ? undefined : etagOf(version);
    if (!ifMatchHolds(this.ifMatch, etag)) throw failed('If-Match', etag);
  }

  /**
   * If-None-Match holds, as `*` does only where there is no such resource.
   *
   * @throws Problem `precondition-failed` with the current ETag
   */
  checkAbsence(version: number | undefined): void {
    const etag = version === undefined ? undefined : etagOf(version);
    if (!ifNoneMatchHolds(this.ifNoneMatch, etag)) throw failed('If-None-Match', etag);
  }

  /** For GET: the client has this version already. */
  isKnown(version: number): boolean {
    return !ifNoneMatchHolds(this.ifNoneMatch, etagOf(version));
  }
}

/** The conditions of the request at hand. */
export const RequestConditions = createParamDecorator((_: unknown, context: ExecutionContext): Conditions => {
  const { headers } = context.switchToHttp().getRequest<Request>();
  return new Conditions(headers['if-match'], headers['if-none-match']);
});

function failed(header: string, etag: string | undefined): Problem {
  const current = etag === undefined ? 'There is no such resource.' : `The current ETag is ${etag}.`;
  return new Problem(PreconditionFailed, `${header} does not hold. ${current}`, {
    headers: etag === undefined ? {} : { ETag: etag },
  });
}
