import type { EntityManager } from 'typeorm';
import type { Statement, Transaction } from '../database/transaction.js';
import type { FeedView } from './dto/feed-view.js';

/** A batch whose records' hashes are remembered. */
export interface KeptBatch {
  readonly firstSequence: number;
  readonly lastSequence: number;
  readonly hashVersion: number;
  /** 32 bytes for each record; `null` where it was not asked for, because what arrived does not reach back so far. */
  readonly hashes: Buffer | null;
}

/** bigint arrives as text; float8 holds every number that the tables do. */
const FEED_COLUMNS = 'feed, epoch::float8 AS epoch, last_sequence::float8 AS "lastSequence"';

/**
 * Opens the feed's next epoch, or the first one of a new feed. It is a fence: it waits for the row until a batch of the
 * epoch before has committed, and every later one of that epoch finds the new number under the same lock.
 */
export async function nextEpoch(transaction: Transaction, feed: string): Promise<FeedView> {
  const [opened] = await transaction.query<FeedView>(
    `INSERT INTO feeds (tenant_id, feed, epoch, last_sequence) VALUES ($1, $2, 1, 0)
     ON CONFLICT (tenant_id, feed) DO UPDATE SET epoch = feeds.epoch + 1, updated_at = EXCLUDED.updated_at
     RETURNING ${FEED_COLUMNS}`,
    [transaction.tenantId, feed],
  );
  return opened!;
}

export async function findFeed(manager: EntityManager, tenantId: string, feed: string): Promise<FeedView | undefined> {
  const [found] = await manager.query<FeedView[]>(
    `SELECT ${FEED_COLUMNS} FROM feeds WHERE tenant_id = $1 AND feed = $2`,
    [tenantId, feed],
  );
  return found;
}

/** Takes the feed's row until the end of the transaction: batches and new epochs of one feed come one after another. */
export function lockFeed(tenantId: string, feed: string): Statement {
  return {
    text: `SELECT ${FEED_COLUMNS} FROM feeds WHERE tenant_id = $1 AND feed = $2 FOR UPDATE`,
    values: [tenantId, feed],
  };
}

/**
 * The batches that are remembered, newest first. It may travel behind {@link lockFeed}: as a statement of its own it sees
 * what was committed while the lock was waited for.
 *
 * @param firstSequence where what has arrived begins: the hashes of batches before it are left where they are
 */
export function keptBatches(tenantId: string, feed: string, firstSequence: number): Statement {
  return {
    text: `SELECT first_sequence::float8 AS "firstSequence", last_sequence::float8 AS "lastSequence",
                  hash_version AS "hashVersion", CASE WHEN last_sequence >= $3 THEN hashes END AS hashes
           FROM feed_batches WHERE tenant_id = $1 AND feed = $2 ORDER BY first_sequence DESC`,
    values: [tenantId, feed, firstSequence],
  };
}

/** Moves the feed, whose row is held, on to that number. Nothing waits for this write. */
export function advanceFeed(transaction: Transaction, feed: string, lastSequence: number): void {
  transaction.closeWith({
    text: `UPDATE feeds SET last_sequence = $3, updated_at = statement_timestamp() WHERE tenant_id = $1 AND feed = $2`,
    values: [transaction.tenantId, feed, lastSequence],
  });
}

/** Remembers a batch. Nothing waits for this write. */
export function keepBatch(
  transaction: Transaction,
  feed: string,
  { firstSequence, lastSequence, hashVersion, hashes }: KeptBatch,
): void {
  transaction.closeWith({
    text: `INSERT INTO feed_batches (tenant_id, feed, first_sequence, last_sequence, hash_version, hashes)
           VALUES ($1, $2, $3, $4, $5, $6)`,
    values: [transaction.tenantId, feed, firstSequence, lastSequence, hashVersion, hashes],
  });
}

/** Forgets the batches before that number. Nothing waits for this write. */
export function forgetBatches(transaction: Transaction, feed: string, before: number): void {
  transaction.closeWith({
    text: 'DELETE FROM feed_batches WHERE tenant_id = $1 AND feed = $2 AND first_sequence < $3',
    values: [transaction.tenantId, feed, before],
  });
}
