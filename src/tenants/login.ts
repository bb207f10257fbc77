import { Injectable } from '@nestjs/common';
import type { NextFunction, Request, Response } from 'express';
import { Problem } from '../http/problem.js';
import { annotationsOf } from '../http/request-annotations.js';
import { Unauthenticated } from '../http/problems.js';
import { type Caller, hashOf, TenantDirectory } from './tenant-directory.js';

/** Milliseconds for which a look-up is believed: how long a revoked key may still work. */
const BELIEVED_FOR = 4_000;
const CAPACITY = 10_000;

const callers = new WeakMap<Request, Caller>();

/** Who sent that request. */
export function callerOf(request: Request): Caller {
  const caller = callers.get(request);
  if (!caller) throw new Error('This route is reached without login');
  return caller;
}

/**
 * Login by API key. It is middleware and stands before the body parser, so that what a stranger sends is never parsed;
 * and it is passed by every request, so that a replay is not told to somebody whose key has been revoked.
 */
@Injectable()
export class Login {
  private readonly known = new Map<string, { readonly caller: Promise<Caller | undefined>; readonly until: number }>();

  constructor(private readonly directory: TenantDirectory) {}

  /** Express middleware. Refuses with `unauthenticated`. */
  readonly handle = async (request: Request, _response: Response, next: NextFunction): Promise<void> => {
    const [, key] = /^Bearer +([\x21-\x7e]{1,500}) *$/i.exec(request.headers.authorization ?? '') ?? [];
    const caller = key === undefined ? undefined : await this.identify(key);
    if (!caller) {
      throw new Problem(Unauthenticated, 'Send a valid API key as "Authorization: Bearer <API key>".', {
        headers: { 'WWW-Authenticate': 'Bearer' },
      });
    }
    callers.set(request, caller);
    annotationsOf(request).tenantId = caller.tenantId;
    next();
  };

  private async identify(key: string): Promise<Caller | undefined> {
    const now = performance.now();
    const hash = hashOf(key);
    const id = hash.toString('base64');
    const believed = this.known.get(id);
    if (believed && believed.until > now) return believed.caller;
    const caller = this.directory.identify(hash);
    this.known.delete(id);
    this.known.set(id, { caller, until: now + BELIEVED_FOR });
    if (this.known.size > CAPACITY) this.known.delete(this.known.keys().next().value!);
    try {
      const identified = await caller;
      if (!identified) this.known.delete(id);
      return identified;
    } catch (error) {
      this.known.delete(id);
      throw error;
    }
  }
}
