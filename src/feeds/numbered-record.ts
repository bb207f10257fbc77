import { type Fault, pointerTo, validationFailed } from '../http/validation.js';
import { contentHash } from '../idempotency/fingerprint.js';
import { NEW_ORDER_RULES } from '../orders/dto/new-order.js';
import { totalFaults } from '../orders/order-content.js';
import type { FeedBatch, FeedRecord } from './dto/feed-batch.js';

/** A record under its number. */
export interface NumberedRecord {
  readonly sequence: number;
  readonly order: FeedRecord;
  /** SHA-256 of what makes it this record and no other: notes about the attempt and written-out defaults do not count. */
  readonly hash: Buffer;
}

/**
 * The records of a batch under their numbers, in their order. Made before the feed is locked, because hashing takes
 * longer than writing.
 *
 * @throws Problem `validation-failed` for what can only be seen of a batch as a whole
 */
export function numberedRecords({ firstSequence, records }: FeedBatch): NumberedRecord[] {
  const faults = [
    ...numberFaults(firstSequence, records.length),
    ...repeatedRefFaults(records),
    ...records.flatMap((order, index) => totalFaults(order, pointerOf(index))),
  ];
  if (faults.length > 0) throw validationFailed(faults);
  return records.map((order, index) => ({
    sequence: firstSequence + index,
    order,
    hash: contentHash(order, NEW_ORDER_RULES),
  }));
}

function numberFaults(firstSequence: number, count: number): Fault[] {
  if (firstSequence <= Number.MAX_SAFE_INTEGER - (count - 1)) return [];
  return [{ pointer: '/firstSequence', detail: 'the number of the last record must not be beyond 9007199254740991' }];
}

/** One reference names one order: of two records with the same, nobody could say which is meant. */
function repeatedRefFaults(records: readonly FeedRecord[]): Fault[] {
  const first = new Map<string, number>();
  return records.flatMap(({ externalRef }, index) => {
    const earlier = first.get(externalRef);
    if (earlier === undefined) {
      first.set(externalRef, index);
      return [];
    }
    return [
      { pointer: pointerTo(pointerOf(index), 'externalRef'), detail: `externalRef is that of ${pointerOf(earlier)}` },
    ];
  });
}

function pointerOf(index: number): string {
  return `/records/${index}`;
}
