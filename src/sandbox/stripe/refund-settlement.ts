import type { Job } from '../background.js';
import type { SandboxDatabase } from '../sandbox-database.js';
import { NO_REQUEST } from '../webhooks/events.js';
import { settleRefund } from './refunds.js';

/** Refunds whose outcome takes its time come to their end here. */
export class RefundSettlement implements Job {
  constructor(
    private readonly database: SandboxDatabase,
    /** Events are due. */
    private readonly wake: () => void,
  ) {}

  async run(): Promise<void> {
    const due = await this.database.query<{ id: string; settlesAs: 'succeeded' | 'failed' }>(
      `SELECT id, settles_as AS "settlesAs" FROM sandbox.refunds
       WHERE settles_at <= statement_timestamp() ORDER BY settles_at`,
    );
    for (const { id, settlesAs } of due) {
      await this.database.transaction((sql) => settleRefund(sql, id, settlesAs, NO_REQUEST));
    }
    if (due.length > 0) this.wake();
  }

  async untilDue(): Promise<number | undefined> {
    const [next] = await this.database.query<{ ms: number | null }>(
      `SELECT extract(epoch FROM min(settles_at) - statement_timestamp())::float8 * 1000 AS ms FROM sandbox.refunds`,
    );
    return next?.ms ?? undefined;
  }
}
