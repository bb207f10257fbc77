import express, { type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import { Problem } from './problem.js';
import { MalformedJson, PayloadTooLarge, UnsupportedMediaType } from './problems.js';
import { MalformedJsonError, parseStrictJson } from './strict-json.js';

const WRITING = new Set(['POST', 'PUT', 'PATCH']);

/**
 * Middleware that reads the body of POST, PUT and PATCH as strict JSON into `request.body`; on other methods a body is
 * not read.
 *
 * Refuses with `unsupported-media-type`, `payload-too-large` or `malformed-json`, all before any key is touched. A
 * request without a body has `request.body` undefined; whether it needs one is for validation to say.
 *
 * @param limit bytes, after decompression
 */
export function jsonBody(limit: number): RequestHandler {
  const readBytes = express.raw({ type: () => true, limit });
  return (request, response, next) => {
    if (!WRITING.has(request.method)) return next();
    if (hasBody(request) && !isJson(request)) {
      return next(new Problem(UnsupportedMediaType, 'Send the body as application/json in UTF-8.'));
    }
    readBytes(request, response, (error?: unknown) => {
      if (error) next(problemOfReading(error));
      else parse(request, response, next);
    });
  };
}

function parse(request: Request, _response: Response, next: NextFunction): void {
  const bytes: unknown = request.body;
  request.body = undefined;
  if (!Buffer.isBuffer(bytes) || bytes.length === 0) return next();
  try {
    request.body = parseStrictJson(bytes);
  } catch (error) {
    return next(error instanceof MalformedJsonError ? new Problem(MalformedJson, error.message) : error);
  }
  next();
}

/** RFC 9112, section 6: a message has a body when it says how long it is. */
function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

/** RFC 8259, section 11: JSON has no charset parameter; one that says UTF-8 is right nevertheless. */
function isJson({ headers }: Request): boolean {
  const [type, ...parameters] = (headers['content-type'] ?? '').split(';').map((part) => part.trim().toLowerCase());
  if (type !== 'application/json') return false;
  return parameters.every((parameter) => !parameter.startsWith('charset=') || /^charset="?utf-?8"?$/.test(parameter));
}

function problemOfReading(error: unknown): unknown {
  const { status } = error as { status?: unknown };
  if (status === 413) return new Problem(PayloadTooLarge, 'The body is larger than this route reads.');
  if (status === 415) return new Problem(UnsupportedMediaType, 'The content encoding is not supported.');
  if (status === 400) return new Problem(MalformedJson, 'The body did not arrive as announced.');
  return error;
}
