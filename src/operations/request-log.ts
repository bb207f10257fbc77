import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import type { RequestHandler } from 'express';
import { annotationsOf } from '../http/request-annotations.js';

const KEY_IN_PATH = /^(\/v1\/idempotency-keys\/).*/i;
const SANE_ID = /^[\w.:+/=-]{1,128}$/;

/**
 * Middleware that gives each request an id (the client's `X-Request-Id` where it is sane) and, when it is over, writes
 * one line about it. Neither bodies nor queries nor keys are in it: of a key only the beginning of its hash.
 */
export function requestLog(logger: Pick<Logger, 'log'> = new Logger('Request')): RequestHandler {
  return (request, response, next) => {
    const begun = performance.now();
    const given = request.headers['x-request-id'];
    const notes = annotationsOf(request);
    notes.requestId = typeof given === 'string' && SANE_ID.test(given) ? given : randomUUID();
    response.setHeader('X-Request-Id', notes.requestId);
    const { method } = request;
    const path = request.path.replace(KEY_IN_PATH, '$1…');
    response.once('close', () => {
      logger.log({
        method,
        path,
        status: response.statusCode,
        milliseconds: Math.round((performance.now() - begun) * 10) / 10,
        ...(!response.writableFinished && { aborted: true }),
        ...notes,
      });
    });
    next();
  };
}
