import { Injectable } from '@nestjs/common';
import { UnitOfWork } from '../database/unit-of-work.js';
import { Problem } from '../http/problem.js';
import { CursorExpired } from './event.problems.js';

/** Events placed in one transaction: few enough for the statement timeout, whatever has piled up. */
const BATCH = 2_000;

/** An event as the log has it. */
export interface LoggedEvent {
  readonly id: string;
  readonly type: string;
  readonly subject: string;
  readonly aggregateVersion: number;
  readonly time: Date;
  readonly data: unknown;
  /** Where it stands in the tenant's log, as a decimal number: of any size, so no JavaScript number. */
  readonly position: string;
}

/** A page of the log. */
export interface LogPage {
  readonly events: readonly LoggedEvent[];
  /** Where to go on; see {@link CURSOR}. */
  readonly cursor: string;
}

/**
 * How a place in the log is written: the position of the last event read and, where that is a higher one, the position
 * up to which events had been removed when the reader began. Without it, who begins with what was kept from older times
 * would be told on the next page that events behind it are gone, and after beginning anew again.
 */
export const CURSOR = /^(\d{1,18})(?:-(\d{1,18}))?$/;

/**
 * A tenant's events in an order that a reader can follow without missing one.
 *
 * Neither ids nor times nor transaction numbers are such an order: a transaction that began early may commit late, behind
 * a reader that has passed its place. So the place of an event is decided only once it is committed: whoever reads locks
 * the tenant's head row and gives the events that have no position the next ones. Givers come one after another, so
 * positions become visible in their order.
 */
@Injectable()
export class EventLog {
  constructor(private readonly unitOfWork: UnitOfWork) {}

  /**
   * Events behind `after`, oldest first.
   *
   * @param after a {@link CURSOR}; undefined: from the oldest event that is kept
   * @throws Problem `cursor-expired` when events behind that position are not kept any more
   */
  async read(tenantId: string, after: string | undefined, limit: number, subject?: string): Promise<LogPage> {
    const [, position = '0', known] = (after === undefined ? null : CURSOR.exec(after)) ?? [];
    // Looked at before the page: what is removed from here on, this reader may miss.
    const removed = after === undefined ? await this.trimmed(tenantId) : (known ?? position);
    for (;;) {
      const events = await this.page(tenantId, position, limit, subject);
      // Looked at behind the page: what was removed before the page was read has moved the mark before.
      if (after !== undefined) this.refuseExpired(await this.trimmed(tenantId), removed);
      if (events.length < limit && (await this.place(tenantId)) > 0) continue;
      const last = events.at(-1)?.position ?? position;
      return { events, cursor: BigInt(removed) > BigInt(last) ? `${last}-${removed}` : last };
    }
  }

  /**
   * Removes a batch of events that are older than the retention and that nobody has to deliver any more. A reader whose
   * cursor stands before them is told so.
   *
   * @param retention milliseconds
   * @param undelivered whether to remove what was not delivered, too: there is nobody to deliver to
   * @returns how many were removed
   */
  async trim(tenantId: string, retention: number, undelivered: boolean, batch: number): Promise<number> {
    while ((await this.place(tenantId)) > 0);
    return this.unitOfWork.run(tenantId, async (transaction) => {
      await transaction.query('SELECT FROM outbox_heads WHERE tenant_id = $1 FOR UPDATE', [tenantId]);
      const old = await transaction.query<{ id: string; position: string }>(
        `SELECT id, position FROM outbox
         WHERE tenant_id = $1 AND created_at <= statement_timestamp() - $2::float8 * interval '1 millisecond'
           AND position IS NOT NULL AND (published_at IS NOT NULL OR $3)
         ORDER BY position LIMIT $4 FOR UPDATE SKIP LOCKED`,
        [tenantId, retention, undelivered, batch],
      );
      const last = old.at(-1);
      if (!last) return 0;
      await transaction.flush([
        {
          text: 'DELETE FROM outbox WHERE tenant_id = $1 AND id = ANY ($2::uuid[])',
          values: [tenantId, old.map(({ id }) => id)],
        },
        {
          text: 'UPDATE outbox_heads SET trimmed = greatest(trimmed, $2::bigint) WHERE tenant_id = $1',
          values: [tenantId, last.position],
        },
      ]);
      return old.length;
    });
  }

  /** Up to which position events may have been removed. */
  private async trimmed(tenantId: string): Promise<string> {
    const [head] = await this.unitOfWork.read(tenantId, (manager) =>
      manager.query<{ trimmed: string }[]>('SELECT trimmed FROM outbox_heads WHERE tenant_id = $1', [tenantId]),
    );
    return head?.trimmed ?? '0';
  }

  private refuseExpired(trimmed: string, known: string): void {
    if (BigInt(trimmed) <= BigInt(known)) return;
    throw new Problem(CursorExpired, 'Events behind this cursor are older than they are kept.');
  }

  private page(tenantId: string, after: string, limit: number, subject?: string): Promise<LoggedEvent[]> {
    return this.unitOfWork.read(tenantId, (manager) =>
      manager.query<LoggedEvent[]>(
        `SELECT id, type, aggregateid AS subject, aggregateversion AS "aggregateVersion",
                created_at AS time, payload AS data, position
         FROM outbox
         WHERE tenant_id = $1 AND position > $2 AND ($4::uuid IS NULL OR aggregateid = $4)
         ORDER BY position LIMIT $3`,
        [tenantId, after, limit, subject ?? null],
      ),
    );
  }

  /**
   * Gives positions to events that are committed and have none, a batch at a time.
   *
   * The batch is chosen by a statement of its own behind the lock: it must see what was committed while the lock was
   * waited for. Within one aggregate the version decides, which is the order of its commits, because each change took the
   * aggregate's row lock after the one before had committed. So a batch, cut anywhere, leaves nothing earlier behind.
   *
   * It is numbered by another one, because a plan may run a subquery again for every row of the table, and does so for a
   * tenant of whom the planner's statistics know nothing yet.
   *
   * @returns how many events were placed
   */
  private async place(tenantId: string): Promise<number> {
    if (!(await this.hasUnplaced(tenantId))) return 0;
    return this.unitOfWork.run(tenantId, async (transaction) => {
      const [, head, unplaced] = await transaction.flush<{ position: string; id: string }>([
        { text: 'INSERT INTO outbox_heads (tenant_id) VALUES ($1) ON CONFLICT DO NOTHING', values: [tenantId] },
        { text: 'SELECT position FROM outbox_heads WHERE tenant_id = $1 FOR UPDATE', values: [tenantId] },
        {
          text: `
            SELECT id FROM outbox WHERE tenant_id = $1 AND position IS NULL
            ORDER BY aggregateid, aggregateversion LIMIT ${BATCH}`,
          values: [tenantId],
        },
      ]);
      const ids = unplaced!.rows.map(({ id }) => id);
      if (ids.length === 0) return 0;
      const { position } = head!.rows[0]!;
      const [placed] = await transaction.flush([
        {
          text: `
            UPDATE outbox SET position = $3::bigint + array_position($2::uuid[], id)
            WHERE tenant_id = $1 AND id = ANY ($2::uuid[])`,
          values: [tenantId, ids, position],
        },
        {
          text: 'UPDATE outbox_heads SET position = $3::bigint + $2 WHERE tenant_id = $1',
          values: [tenantId, ids.length, position],
        },
      ]);
      return placed!.rowCount ?? 0;
    });
  }

  private async hasUnplaced(tenantId: string): Promise<boolean> {
    const rows = await this.unitOfWork.read(tenantId, (manager) =>
      manager.query<unknown[]>('SELECT 1 FROM outbox WHERE tenant_id = $1 AND position IS NULL LIMIT 1', [tenantId]),
    );
    return rows.length > 0;
  }
}
