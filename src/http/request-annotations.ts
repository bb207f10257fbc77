import type { Request } from 'express';
import type { KeyedOutcome } from '../config/telemetry.js';

/** What the parts of the service found out about a request: for its line in the log, never for a decision. */
export interface RequestAnnotations {
  requestId?: string;
  tenantId?: string;
  /** The stable name of an endpoint that takes keys. */
  endpoint?: string;
  /** What became of a request under a key. */
  outcome?: KeyedOutcome;
  /** The beginning of the key's SHA-256: enough to find its requests, and no way back to the key. */
  keyHash?: string;
  problem?: string;
  errorId?: string;
}

const annotations = new WeakMap<Request, RequestAnnotations>();

/** The annotations of that request, to read and to add to. */
export function annotationsOf(request: Request): RequestAnnotations {
  let found = annotations.get(request);
  if (!found) annotations.set(request, (found = {}));
  return found;
}
