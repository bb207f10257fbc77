import { Injectable } from '@nestjs/common';
import { AcrossTenants } from '../database/across-tenants.js';
import { UnitOfWork } from '../database/unit-of-work.js';

/** An event that was put aside. */
export interface DeadEvent {
  readonly id: string;
  readonly tenantId: string;
  readonly type: string;
  readonly subject: string;
  readonly aggregateVersion: number;
  readonly attempts: number;
  readonly reason: string;
  readonly deadAt: Date;
  /** `skipped`: those behind it go on; null: they wait. */
  readonly resolution: 'skipped' | null;
}

/** What an operator may do with a dead event, and the statement that does it. */
const ACTIONS = {
  /** It is delivered again, with a clean record. */
  retry: `published_at = NULL, dead_at = NULL, dead_reason = NULL, resolution = NULL, available_at = NULL,
          attempts_started = 0, attempts_finished = 0`,
  /** Those behind it go on without it; it may be retried later, out of their order. */
  skip: `published_at = statement_timestamp(), resolution = 'skipped'`,
  /** It is never delivered. */
  discard: `published_at = coalesce(published_at, statement_timestamp()), resolution = 'discarded'`,
} as const;

export type DeadEventAction = keyof typeof ACTIONS;

/** Events that could not be delivered, for a person to decide about. They hold up their own aggregate, and no other. */
@Injectable()
export class DeadEvents {
  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
  ) {}

  /** All that wait for a decision, the longest dead first. */
  async list(): Promise<DeadEvent[]> {
    return this.acrossTenants.query<DeadEvent & Record<string, unknown>>(
      `SELECT id, tenant_id AS "tenantId", type, aggregateid AS subject, aggregateversion AS "aggregateVersion",
              attempts_finished AS attempts, dead_reason AS reason, dead_at AS "deadAt", resolution
       FROM outbox WHERE dead_at IS NOT NULL AND resolution IS DISTINCT FROM 'discarded' ORDER BY dead_at`,
    );
  }

  /** @returns whether there is such a dead event */
  async decide(id: string, action: DeadEventAction): Promise<boolean> {
    const event = (await this.list()).find((dead) => dead.id === id.toLowerCase());
    if (!event) return false;
    const { tenantId } = event;
    const changed = await this.unitOfWork.run(tenantId, (transaction) =>
      transaction.query(
        `UPDATE outbox SET ${ACTIONS[action]} WHERE tenant_id = $1 AND id = $2 AND dead_at IS NOT NULL RETURNING 1`,
        [tenantId, event.id],
      ),
    );
    return changed.length > 0;
  }
}
