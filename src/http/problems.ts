import { problemType } from './problem.js';

/** The kinds of refusal that every route shares. Features declare their own beside their code. */

export const MalformedJson = problemType({
  code: 'malformed-json',
  status: 400,
  title: 'The body is not acceptable JSON',
  underKey: 'released',
  explanation:
    'The body could not be read as JSON without changing what it says: it is not JSON or not UTF-8, names a member twice, holds a number that a double cannot carry exactly, a lone surrogate, a NUL character or a member "__proto__", or is nested deeper than 32 levels.',
  remedy: 'Send UTF-8 JSON. Send numbers beyond 2^53 as strings where the API asks for strings.',
});

export const ValidationFailed = problemType({
  code: 'validation-failed',
  status: 400,
  title: 'The request is not valid',
  underKey: 'stored',
  explanation:
    'A member is missing, unknown or has a value that is not allowed. "errors" names each one by its JSON Pointer.',
  remedy:
    'Correct the members listed in "errors". A corrected request is a new one: send it with a new Idempotency-Key.',
});

export const Unauthenticated = problemType({
  code: 'unauthenticated',
  status: 401,
  title: 'A valid API key is required',
  underKey: 'released',
  explanation: 'The Authorization header is missing, or its API key is unknown or has been revoked.',
  remedy: 'Send "Authorization: Bearer <API key>" with a current key of your tenant.',
});

export const NotFound = problemType({
  code: 'not-found',
  status: 404,
  title: 'There is no such resource',
  underKey: 'released',
  explanation: 'No route or no resource of your tenant has this address.',
  remedy: 'Check the path and the id. If the resource is created later, the same request may then succeed.',
});

export const MethodNotAllowed = problemType({
  code: 'method-not-allowed',
  status: 405,
  title: 'The resource does not support this method',
  underKey: 'released',
  explanation: 'The address exists, but not with this method.',
  remedy: 'Use one of the methods in the Allow header.',
});

export const PreconditionFailed = problemType({
  code: 'precondition-failed',
  status: 412,
  title: 'The resource is not in the state the request was made for',
  underKey: 'released',
  explanation: 'If-Match or If-None-Match does not hold: somebody has changed the resource, or it exists already.',
  remedy: 'Read the resource, decide again, and send the change with its current ETag.',
});

export const PreconditionRequired = problemType({
  code: 'precondition-required',
  status: 428,
  title: 'The change must name the version it is meant for',
  underKey: 'released',
  explanation: 'Without If-Match this change could overwrite one that you have not seen.',
  remedy: 'Send If-Match with the ETag of the version that you read.',
});

export const PayloadTooLarge = problemType({
  code: 'payload-too-large',
  status: 413,
  title: 'The body is too large',
  underKey: 'released',
  explanation: 'The body is larger than this route reads.',
  remedy: 'Send less in one request.',
});

export const UnsupportedMediaType = problemType({
  code: 'unsupported-media-type',
  status: 415,
  title: 'The body is not JSON',
  underKey: 'released',
  explanation: 'This route reads application/json in UTF-8 and nothing else.',
  remedy: 'Send JSON with "Content-Type: application/json".',
});

export const ServiceUnavailable = problemType({
  code: 'service-unavailable',
  status: 503,
  title: 'The request could not be carried out at the moment',
  underKey: 'released',
  explanation: 'Something the service depends on did not answer. It is certain that nothing has happened.',
  remedy: 'Send the same request with the same Idempotency-Key again, after the time in Retry-After.',
});

export const OutcomeUnknown = problemType({
  code: 'outcome-unknown',
  status: 503,
  title: 'It is not known whether the request was carried out',
  underKey: 'released',
  explanation: 'The connection to the database was lost at the moment of the commit.',
  remedy: 'Send the same request with the same Idempotency-Key again: it finds out, and does not repeat what was done.',
});

export const InternalError = problemType({
  code: 'internal-error',
  status: 500,
  title: 'The service failed',
  underKey: 'released',
  explanation: 'A fault of the service. Nothing was written.',
  remedy: 'Send the same request with the same Idempotency-Key again. If it persists, report the errorId.',
});
