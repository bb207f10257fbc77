import { Injectable, Logger } from '@nestjs/common';
import { AcrossTenants } from '../database/across-tenants.js';

/** Events that are counted one by one; beyond it the figure stands still, and the scrape stays cheap. */
const MOST_COUNTED = 10_000;

/** What the tables hold. Ages are seconds, 0 where there is nothing. */
export interface StoredFigures {
  readonly keysCompleted: number;
  readonly keysInProgress: number;
  readonly oldestUnfinishedKey: number;
  readonly expiryLag: number;
  readonly outboxPending: number;
  readonly outboxOldest: number;
  readonly outboxDead: number;
  readonly paymentsUnknown: number;
  readonly refundsUnknown: number;
  readonly oldestUnknown: number;
  readonly reviewsOpen: number;
  readonly surplusOpen: number;
}

/**
 * Each figure comes from a small partial index, from the first entry of an index, or from Postgres' own statistics: what
 * it costs grows with what is open and with the tenants, and not with what is stored.
 *
 * Counting the keys would read all of them, so theirs is the estimate that Postgres keeps with every insert and delete.
 * It forgets that when it crashes: until it has analysed the table again, the size of the last time is believed.
 *
 * The order of the pending events makes it walk their index, whatever the statistics say.
 */
export const STORED_FIGURES = `
  SELECT
    keys.estimate::float8 AS "keysStored",
    unfinished.n::float8 AS "keysInProgress",
    unfinished.age::float8 AS "oldestUnfinishedKey",
    greatest(0, coalesce((
      SELECT extract(epoch FROM statement_timestamp() - min(first.expires_at))
      FROM tenants CROSS JOIN LATERAL (
        SELECT expires_at FROM idempotency_keys
        WHERE tenant_id = tenants.id AND status = 'completed' ORDER BY expires_at LIMIT 1) first), 0))::float8 AS "expiryLag",
    pending.n::float8 AS "outboxPending",
    pending.age::float8 AS "outboxOldest",
    (SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL AND resolution IS NULL)::float8 AS "outboxDead",
    payments.n::float8 AS "paymentsUnknown",
    refunds.n::float8 AS "refundsUnknown",
    greatest(payments.age, refunds.age)::float8 AS "oldestUnknown",
    (SELECT count(*) FROM payment_reviews WHERE resolved_at IS NULL)::float8 AS "reviewsOpen",
    (SELECT count(*) FROM surplus_charges WHERE status <> 'returned')::float8 AS "surplusOpen"
  FROM
    (SELECT CASE WHEN coalesce(pg_stat_get_last_analyze_time(oid), pg_stat_get_last_autoanalyze_time(oid),
                               pg_stat_get_last_vacuum_time(oid), pg_stat_get_last_autovacuum_time(oid)) IS NULL
                 THEN greatest(reltuples, pg_stat_get_live_tuples(oid))
                 ELSE pg_stat_get_live_tuples(oid) END AS estimate
     FROM pg_class WHERE oid = 'idempotency_keys'::regclass) keys,
    (SELECT count(*) AS n, ${age('min(created_at)')} AS age FROM idempotency_keys
     WHERE status = 'in_progress' AND operation_id IS NOT NULL) unfinished,
    (SELECT count(*) AS n, ${age('min(created_at)')} AS age FROM (
       SELECT created_at FROM outbox WHERE published_at IS NULL
       ORDER BY tenant_id, aggregateid, aggregateversion LIMIT ${MOST_COUNTED}) counted) pending,
    (SELECT count(*) AS n, ${age('min(sent_at)')} AS age FROM payments WHERE status = 'pending') payments,
    (SELECT count(*) AS n, ${age('min(sent_at)')} AS age FROM refunds WHERE status = 'pending') refunds`;

function age(since: string): string {
  return `coalesce(extract(epoch FROM statement_timestamp() - ${since}), 0)`;
}

type Row = Omit<StoredFigures, 'keysCompleted'> & { readonly keysStored: number };

/** Looks into the tables for what no process can count by itself, at a cost that does not grow with them. */
@Injectable()
export class StoredFiguresReader {
  /** Milliseconds for which figures are believed: scrapes of several collectors cost one look. */
  believedFor = 2_000;

  private readonly logger = new Logger('Metrics');
  private last: { readonly figures: Promise<StoredFigures | undefined>; readonly at: number } | undefined;

  constructor(private readonly acrossTenants: AcrossTenants) {}

  /** @returns `undefined` while the database does not answer */
  read(): Promise<StoredFigures | undefined> {
    const now = performance.now();
    if (!this.last || now - this.last.at >= this.believedFor) this.last = { figures: this.look(), at: now };
    return this.last.figures;
  }

  private async look(): Promise<StoredFigures | undefined> {
    try {
      const [row] = await this.acrossTenants.query<Row>(STORED_FIGURES);
      const { keysStored, ...figures } = row!;
      return { ...figures, keysCompleted: Math.max(0, keysStored - figures.keysInProgress) };
    } catch (error) {
      this.logger.warn(`figures_not_read: ${String(error)}`);
      return undefined;
    }
  }
}
