import type { RequestHandler } from 'express';
import { RateLimiterMemory, type RateLimiterRes } from 'rate-limiter-flexible';
import { Problem, problemType } from '../http/problem.js';
import { callerOf } from './login.js';

export const RateLimited = problemType({
  code: 'rate-limited',
  status: 429,
  title: 'Too many requests',
  underKey: 'released',
  explanation:
    'The tenant has sent more requests in this second than it may. Nothing has happened, and no key was touched.',
  remedy: 'Send the same request with the same Idempotency-Key again after the time in Retry-After.',
});

/**
 * Middleware behind the login that bounds the requests of a tenant, in each process for itself.
 *
 * @param perSecond 0: no limit
 */
export function rateLimit(perSecond: number): RequestHandler {
  if (perSecond === 0) return (_request, _response, next) => next();
  const limiter = new RateLimiterMemory({ points: perSecond, duration: 1 });
  return (request, _response, next) => {
    limiter.consume(callerOf(request).tenantId).then(
      () => next(),
      ({ msBeforeNext }: RateLimiterRes) => {
        const seconds = Math.max(1, Math.ceil(msBeforeNext / 1000));
        next(
          new Problem(RateLimited, `At most ${perSecond} requests per second.`, {
            headers: { 'Retry-After': String(seconds) },
          }),
        );
      },
    );
  };
}
