import { FINGERPRINT_VERSION } from './fingerprint.js';
import type { KeyRecord } from './key-record.js';
import type { KeyScope } from './key-scope.js';

/** A request under a key, as the mechanism sees it. */
export interface KeyedRequest {
  readonly scope: KeyScope;
  /** SHA-256 of what makes it this request and no other, by the current version of the algorithm. */
  readonly fingerprint: Buffer;
  /** Clock of this process ({@link performance.now}), milliseconds: until then it may wait for another's outcome. */
  readonly waitUntil: number;
}

/**
 * Whether the record is of this very request. One written by another version of the algorithm cannot be compared: it
 * counts as the same, so that a deploy does not turn retries into refusals.
 */
export function isRecordOf(request: KeyedRequest, record: KeyRecord): boolean {
  return record.fingerprintVersion !== FINGERPRINT_VERSION || request.fingerprint.equals(record.fingerprint);
}
