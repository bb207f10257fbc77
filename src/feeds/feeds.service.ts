import { Injectable } from '@nestjs/common';
import type { QueryResult } from 'pg';
import type { Opening, Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { Problem } from '../http/problem.js';
import { NotFound } from '../http/problems.js';
import { FINGERPRINT_VERSION } from '../idempotency/fingerprint.js';
import { OrdersService } from '../orders/orders.service.js';
import type { FeedBatch } from './dto/feed-batch.js';
import type { Acknowledgement, FeedView, OpenedEpoch } from './dto/feed-view.js';
import { EpochFenced, SequenceGap } from './feed.problems.js';
import {
  advanceFeed,
  findFeed,
  forgetBatches,
  keepBatch,
  type KeptBatch,
  keptBatches,
  lockFeed,
  nextEpoch,
} from './feed-table.js';
import { type NumberedRecord, numberedRecords } from './numbered-record.js';
import { refuseReused } from './repeats.js';
import { Turns } from './turns.js';

/** How many batches are remembered record by record: as many as Kafka's brokers remember of a producer. */
const KEPT = 5;

/**
 * Numbered records from one sender at a time, as Kafka's idempotent producer has them (KIP-98): a number at or below the
 * last is a repeat, one above the next a gap, and an epoch fences the senders before it. Unlike there, numbers go on
 * across epochs, so that a sender that begins anew can send what it had sent without knowing what has arrived.
 */
@Injectable()
export class FeedsService {
  private readonly turns = new Turns();

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly orders: OrdersService,
  ) {}

  /** Makes the caller the sender of the feed: whoever was before is refused from now on. */
  async open(tenantId: string, feed: string): Promise<OpenedEpoch> {
    const { epoch, lastSequence } = await this.turns.take(turnOf(tenantId, feed), () =>
      this.unitOfWork.run(tenantId, (transaction) => nextEpoch(transaction, feed)),
    );
    return { feed, epoch, nextSequence: lastSequence + 1 };
  }

  /** @throws Problem `not-found` where no epoch was opened yet */
  async read(tenantId: string, feed: string): Promise<FeedView> {
    const found = await this.unitOfWork.read(tenantId, (manager) => findFeed(manager, tenantId, feed));
    if (!found) throw new Problem(NotFound, 'There is no feed with this name.');
    return found;
  }

  /**
   * Takes a batch as a whole: acknowledges the records that were taken before, and makes orders of the others.
   *
   * @throws Problem `validation-failed`, `epoch-fenced`, `sequence-gap`, `sequence-reused`
   */
  async append(tenantId: string, feed: string, batch: FeedBatch): Promise<Acknowledgement> {
    const records = numberedRecords(batch);
    const opening = (): Opening => ({
      statements: [lockFeed(tenantId, feed), keptBatches(tenantId, feed, batch.firstSequence)],
    });
    return this.turns.take(turnOf(tenantId, feed), () =>
      this.unitOfWork.run(tenantId, (transaction) => this.take(transaction, feed, batch, records), opening),
    );
  }

  private async take(
    transaction: Transaction,
    feed: string,
    { epoch, firstSequence }: FeedBatch,
    records: readonly NumberedRecord[],
  ): Promise<Acknowledgement> {
    const [locked, kept] = transaction.opened as [QueryResult<FeedView>, QueryResult<KeptBatch>];
    const { lastSequence } = refuseFenced(locked.rows[0], epoch);
    refuseGap(lastSequence, firstSequence);
    const isOld = ({ sequence }: NumberedRecord): boolean => sequence <= lastSequence;
    await refuseReused(records.filter(isOld), kept.rows, (refs) => this.orders.usedRefs(transaction, refs));
    const fresh = records.filter((record) => !isOld(record));
    const last = fresh.at(-1);
    if (!last) {
      transaction.discard();
      return { epoch, lastSequence, applied: 0, duplicates: records.length };
    }
    const orders = fresh.map(({ order }) => order);
    const { size: applied } = await this.orders.createAll(transaction, orders);
    remember(transaction, feed, fresh, kept.rows);
    return { epoch, lastSequence: last.sequence, applied, duplicates: records.length - applied };
  }
}

function turnOf(tenantId: string, feed: string): string {
  return `${tenantId}/${feed}`;
}

/** What of a batch was new is a batch of its own: those that are remembered cover every number once, without gaps. */
function remember(
  transaction: Transaction,
  feed: string,
  records: readonly NumberedRecord[],
  kept: readonly KeptBatch[],
): void {
  const { sequence: firstSequence } = records[0]!;
  const { sequence: lastSequence } = records.at(-1)!;
  const hashes = Buffer.concat(records.map(({ hash }) => hash));
  advanceFeed(transaction, feed, lastSequence);
  keepBatch(transaction, feed, { firstSequence, lastSequence, hashVersion: FINGERPRINT_VERSION, hashes });
  if (kept.length >= KEPT) forgetBatches(transaction, feed, kept[KEPT - 2]!.firstSequence);
}

/** A later epoch than the feed has was never opened here: a sender that has it may be of another world. */
function refuseFenced(feed: FeedView | undefined, epoch: number): FeedView {
  if (feed?.epoch === epoch) return feed;
  const detail = feed ? `The epoch that may send is ${feed.epoch}.` : 'No epoch of this feed was opened yet.';
  throw new Problem(EpochFenced, detail, { members: { currentEpoch: feed?.epoch ?? 0 } });
}

function refuseGap(lastSequence: number, firstSequence: number): void {
  const expectedSequence = lastSequence + 1;
  if (firstSequence <= expectedSequence) return;
  throw new Problem(SequenceGap, `The next number is ${expectedSequence}.`, { members: { expectedSequence } });
}
