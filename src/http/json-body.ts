import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { Request, RequestHandler } from 'express';
import getRawBody from 'raw-body';
import { Problem } from './problem.js';
import { MalformedJson, PayloadTooLarge, UnsupportedMediaType } from './problems.js';
import { MalformedJsonError, parseStrictJson } from './strict-json.js';

const WRITING = new Set(['POST', 'PUT', 'PATCH']);

/** Content codings (RFC 9110, section 8.4.1) and what undoes them. */
const CODINGS: ReadonlyMap<string, (request: Request) => Readable> = new Map([
  ['identity', (request: Request): Readable => request],
  ['gzip', (request: Request) => request.pipe(createGunzip())],
  ['x-gzip', (request: Request) => request.pipe(createGunzip())],
  ['deflate', (request: Request) => request.pipe(createInflate())],
  ['br', (request: Request) => request.pipe(createBrotliDecompress())],
]);

/**
 * Middleware that reads the body of POST, PUT and PATCH as strict JSON into `request.body`; on other methods a body is
 * not read.
 *
 * Refuses with `unsupported-media-type`, `payload-too-large` or `malformed-json`, all before any key is touched, and as
 * soon as it can be known: nobody has to send the rest of a body that is too large. A request without a body has
 * `request.body` undefined; whether it needs one is for validation to say.
 *
 * @param limitOf bytes that a request may have, after decompression
 */
export function jsonBody(limitOf: (request: Request) => number): RequestHandler {
  return (request, response, next) => {
    request.body = undefined;
    if (!WRITING.has(request.method) || !hasBody(request)) return next();
    const limit = limitOf(request);
    const refuse = (error: unknown): void => {
      response.setHeader('Connection', 'close'); // the rest of the body is not waited for
      next(error);
    };
    const decode = CODINGS.get((request.headers['content-encoding'] ?? 'identity').toLowerCase());
    if (!isJson(request)) {
      return refuse(new Problem(UnsupportedMediaType, 'Send the body as application/json in UTF-8.'));
    }
    if (!decode) return refuse(new Problem(UnsupportedMediaType, 'The content encoding is not supported.'));
    if (Number(request.headers['content-length'] ?? 0) > limit) return refuse(tooLarge());
    readUpTo(limit, request, decode(request)).then(
      (bytes) => {
        try {
          if (bytes.length > 0) request.body = parseStrictJson(bytes);
        } catch (error) {
          return next(error instanceof MalformedJsonError ? new Problem(MalformedJson, error.message) : error);
        }
        next();
      },
      (error: unknown) => refuse(unread(error)),
    );
  };
}

/**
 * Middleware that reads the body as it is into `request.rawBody`, for messages whose signature is over their bytes.
 *
 * @param limit bytes
 */
export function rawBody(limit: number): RequestHandler {
  return (request, response, next) => {
    const refuse = (error: unknown): void => {
      response.setHeader('Connection', 'close');
      next(error);
    };
    if (Number(request.headers['content-length'] ?? 0) > limit) return refuse(tooLarge());
    getRawBody(request, { limit }).then(
      (bytes) => {
        Object.assign(request, { rawBody: bytes });
        next();
      },
      (error: unknown) => refuse(unread(error)),
    );
  };
}

function unread(error: unknown): Problem {
  const { type } = error as { type?: string };
  if (type === 'entity.too.large') return tooLarge();
  return new Problem(MalformedJson, 'The body did not arrive as it was announced.');
}

/** @throws Error with `type` `entity.too.large`, or whatever else went wrong */
async function readUpTo(limit: number, request: Request, decoded: Readable): Promise<Buffer> {
  if (decoded === request) return getRawBody(request, { limit });
  // A decoder goes on after it is not listened to any more, and an error that nobody hears ends the process.
  decoded.on('error', () => undefined);
  try {
    return await getRawBody(decoded, { limit });
  } finally {
    request.unpipe();
    decoded.destroy();
  }
}

function tooLarge(): Problem {
  return new Problem(PayloadTooLarge, 'The body is larger than this route reads.');
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
