import type { KeyRecord, StoredResponse } from './key-record.js';

/** What came of trying for the key. */
export interface Execution {
  readonly record: KeyRecord;
  /** Whether this very request did the work, rather than finding it done. */
  readonly executed: boolean;
  /** Whether it went on where an earlier attempt had stopped. */
  readonly takenOver?: boolean;
}

/** What the handler made of a request: the answer to record, and whether it is a refusal whose effects are undone. */
export interface HandledRequest {
  readonly response: StoredResponse;
  readonly refused: boolean;
}
