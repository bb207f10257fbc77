import { randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { HttpException, Logger } from '@nestjs/common';
import { DatabaseUnavailableError, OutcomeUnknownError } from '../database/database.errors.js';
import { isPassingFailure } from '../database/sql-state.js';
import { Problem, type ProblemType, findProblemType, problemType } from './problem.js';
import {
  InternalError,
  MethodNotAllowed,
  NotFound,
  OutcomeUnknown,
  PayloadTooLarge,
  PreconditionFailed,
  PreconditionRequired,
  ServiceUnavailable,
  Unauthenticated,
  UnsupportedMediaType,
  ValidationFailed,
} from './problems.js';

const logger = new Logger('Problem');
const RETRY_SOON = { 'Retry-After': '1' };

const byStatus = new Map<number, ProblemType>(
  [
    ValidationFailed,
    Unauthenticated,
    NotFound,
    MethodNotAllowed,
    PreconditionFailed,
    PayloadTooLarge,
    UnsupportedMediaType,
    PreconditionRequired,
    ServiceUnavailable,
  ].map((type) => [type.status, type]),
);

/**
 * Says what any thrown thing means to the client. What the service did not foresee becomes `internal-error`: it is
 * logged here, once, under the `errorId` that the client gets, and nothing of it is told.
 */
export function exceptionToProblem(exception: unknown): Problem {
  if (exception instanceof Problem) return exception;
  if (exception instanceof OutcomeUnknownError) {
    logger.warn(`${exception.message}: ${causeOf(exception)}`);
    return new Problem(OutcomeUnknown, 'The request may have been carried out. Send it again to find out.', {
      headers: RETRY_SOON,
      cause: exception,
    });
  }
  if (exception instanceof DatabaseUnavailableError || isPassingFailure(exception)) {
    logger.warn(`${(exception as Error).message}: ${causeOf(exception)}`);
    return new Problem(ServiceUnavailable, 'Nothing has happened. Send the request again.', {
      headers: RETRY_SOON,
      cause: exception,
    });
  }
  const status = exception instanceof HttpException ? exception.getStatus() : 500;
  if ((status >= 400 && status < 500) || status === 503) {
    return new Problem(typeOfStatus(status), (exception as HttpException).message, {
      headers: status === 503 ? RETRY_SOON : {},
      cause: exception,
    });
  }
  const errorId = randomUUID();
  logger.error(`errorId=${errorId} ${describe(exception)}`);
  return new Problem(InternalError, 'The service failed. The failure is on record under the errorId.', {
    members: { errorId },
    cause: exception,
  });
}

/**
 * A plain `HttpException` of Nest has no kind of its own; it gets the one of its status. Whether a key remembers it
 * follows from what the status says: of the lasting ones only 400, 402 and 422.
 */
function typeOfStatus(status: number): ProblemType {
  const known = byStatus.get(status);
  if (known) return known;
  const title = STATUS_CODES[status] ?? 'The request was refused';
  const code = title.toLowerCase().replaceAll(/[^a-z]+/g, '-');
  const type = findProblemType(code) ?? problemType({ ...GENERIC, code, status, title, underKey: lasting(status) });
  byStatus.set(status, type);
  return type;
}

const GENERIC = { explanation: 'The request was refused.', remedy: 'The detail of the answer says more.' };

function lasting(status: number): ProblemType['underKey'] {
  return [400, 402, 422].includes(status) ? 'stored' : 'released';
}

function causeOf(exception: unknown): string {
  const { cause } = exception as { cause?: unknown };
  return cause === undefined ? '' : messageOf(cause);
}

function messageOf(thrown: unknown): string {
  const message = (thrown as { message?: unknown } | null)?.message;
  return typeof message === 'string' ? message : String(thrown);
}

function describe(exception: unknown): string {
  const { stack, cause } = (exception ?? {}) as { stack?: unknown; cause?: unknown };
  const text = typeof stack === 'string' ? stack : messageOf(exception);
  return cause === undefined ? text : `${text}\ncaused by ${describe(cause)}`;
}
