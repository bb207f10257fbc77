import { Problem } from '../http/problem.js';
import { FINGERPRINT_VERSION } from '../idempotency/fingerprint.js';
import type { KeptBatch } from './feed-table.js';
import { SequenceReused } from './feed.problems.js';
import type { NumberedRecord } from './numbered-record.js';

const HASH_BYTES = 32;

/**
 * Makes sure that records whose numbers were taken before are those that were taken: a sender that has lost its counter
 * must not be told that its new orders are old. Kafka's brokers do not look; they drop what has a known number.
 *
 * Within the batches that are remembered the hash tells. Before them, and for hashes that another version of the algorithm
 * has made, there is only whether the external reference was ever used.
 *
 * @param usedRefs which of the external references an order has or had
 * @throws Problem `sequence-reused`
 */
export async function refuseReused(
  records: readonly NumberedRecord[],
  kept: readonly KeptBatch[],
  usedRefs: (externalRefs: readonly string[]) => Promise<ReadonlySet<string>>,
): Promise<void> {
  const forgotten: NumberedRecord[] = [];
  for (const record of records) {
    const hash = keptHash(record.sequence, kept);
    if (!hash) forgotten.push(record);
    else if (!hash.equals(record.hash)) throw reused(record);
  }
  if (forgotten.length === 0) return;
  const used = await usedRefs(forgotten.map(({ order }) => order.externalRef));
  const unknown = forgotten.find(({ order }) => !used.has(order.externalRef));
  if (unknown) throw reused(unknown);
}

function keptHash(sequence: number, kept: readonly KeptBatch[]): Buffer | undefined {
  const batch = kept.find(({ firstSequence, lastSequence }) => firstSequence <= sequence && sequence <= lastSequence);
  if (!batch?.hashes || batch.hashVersion !== FINGERPRINT_VERSION) return undefined;
  const at = (sequence - batch.firstSequence) * HASH_BYTES;
  return batch.hashes.subarray(at, at + HASH_BYTES);
}

function reused({ sequence }: NumberedRecord): Problem {
  return new Problem(SequenceReused, `The number ${sequence} was taken by another record.`, { members: { sequence } });
}
