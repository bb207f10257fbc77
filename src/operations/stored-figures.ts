import { Injectable } from '@nestjs/common';
import { AcrossTenants } from '../database/across-tenants.js';

/** Milliseconds for which figures are believed: scrapes of several collectors cost one look. */
const BELIEVED_FOR = 2_000;
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
  readonly reviewsOpen: number;
  readonly surplusOpen: number;
}

/** Each figure comes from a small partial index, from the first row of an index, or from Postgres' own statistics. */
const QUERY = `
  SELECT
    (SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'idempotency_keys')::float8 AS "keysLive",
    unfinished.n::float8 AS "keysInProgress",
    coalesce(extract(epoch FROM statement_timestamp() - unfinished.oldest), 0)::float8 AS "oldestUnfinishedKey",
    greatest(0, coalesce((
      SELECT extract(epoch FROM statement_timestamp() - min(first.expires_at))
      FROM tenants CROSS JOIN LATERAL (
        SELECT expires_at FROM idempotency_keys
        WHERE tenant_id = tenants.id AND status = 'completed' ORDER BY expires_at LIMIT 1) first), 0))::float8 AS "expiryLag",
    pending.n::float8 AS "outboxPending",
    coalesce(extract(epoch FROM statement_timestamp() - pending.oldest), 0)::float8 AS "outboxOldest",
    (SELECT count(*) FROM outbox WHERE dead_at IS NOT NULL AND resolution IS NULL)::float8 AS "outboxDead",
    (SELECT count(*) FROM payments WHERE status = 'pending')::float8 AS "paymentsUnknown",
    (SELECT count(*) FROM refunds WHERE status = 'pending')::float8 AS "refundsUnknown",
    (SELECT count(*) FROM payment_reviews WHERE resolved_at IS NULL)::float8 AS "reviewsOpen",
    (SELECT count(*) FROM surplus_charges WHERE status <> 'returned')::float8 AS "surplusOpen"
  FROM
    (SELECT count(*) AS n, min(created_at) AS oldest FROM idempotency_keys
     WHERE status = 'in_progress' AND operation_id IS NOT NULL) unfinished,
    (SELECT count(*) AS n, min(created_at) AS oldest FROM (
       SELECT created_at FROM outbox WHERE published_at IS NULL LIMIT ${MOST_COUNTED}) counted) pending`;

/** Looks into the tables for what no process can count by itself, at a cost that does not grow with them. */
@Injectable()
export class StoredFiguresReader {
  private last: { readonly figures: Promise<StoredFigures>; readonly until: number } | undefined;

  constructor(private readonly acrossTenants: AcrossTenants) {}

  /** @throws DatabaseUnavailableError */
  read(): Promise<StoredFigures> {
    const now = performance.now();
    if (!this.last || this.last.until <= now) this.last = { figures: this.look(), until: now + BELIEVED_FOR };
    return this.last.figures;
  }

  private async look(): Promise<StoredFigures> {
    const [row] = await this.acrossTenants.query<Omit<StoredFigures, 'keysCompleted'> & { keysLive: number }>(QUERY);
    const { keysLive, ...figures } = row!;
    return { ...figures, keysCompleted: Math.max(0, keysLive - figures.keysInProgress) };
  }
}
