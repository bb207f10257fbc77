import { expect } from '@jest/globals';
import type { ApiResponse } from '../support/api-client.js';

/** The headers that a replay repeats. */
const REPEATED = ['content-type', 'location', 'etag', 'idempotency-expires'] as const;

/** Asserts that `again` is the first answer once more: status, headers and every byte, with the marker. */
export function expectReplayOf(first: ApiResponse, again: ApiResponse): void {
  expect(again.headers['idempotent-replayed']).toBe('true');
  expect(again.status).toBe(first.status);
  expect(again.text).toBe(first.text);
  expect(again.bytes.equals(first.bytes)).toBe(true); // `toEqual` goes byte by byte: seconds for a large body
  for (const name of REPEATED) expect([name, again.headers[name]]).toEqual([name, first.headers[name]]);
  expect(again.headers['idempotency-expires']).toBeDefined();
}
