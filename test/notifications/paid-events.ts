import { randomUUID } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { ACME } from '../support/test-app.js';
import type { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';

/** A `payment.succeeded` as the payments write it, put into the outbox. @returns the event's id */
export async function tellOfPayment(
  database: TestDatabase,
  different: Record<string, unknown> = {},
  tenantId: string = ACME.tenantId,
): Promise<string> {
  const [eventId, id, at] = [uuidv7(), randomUUID(), '2026-11-30T01:02:03.004Z'];
  const payment = {
    ...{ id, orderId: randomUUID(), status: 'succeeded', amount: 900, refundedAmount: 0, currency: 'EUR' },
    ...{ method: 'card', providerRef: 'ch_1', declineCode: null, version: 2, createdAt: at, updatedAt: at },
    receiptEmail: 'ada@shop.example',
    ...different,
  };
  await database.query(
    `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
     VALUES ($1, $2, 'payment', $3, 2, 'payment.succeeded', $4)`,
    [tenantId, eventId, id, JSON.stringify(payment)],
  );
  return eventId;
}

/** How many events the consumer of receipts has applied; those of others do not count. */
export function applied(database: TestDatabase): Promise<number> {
  return database.count('processed_messages', `consumer = 'notifications.receipt'`);
}

export interface NotificationRow {
  readonly id: string;
  readonly event_id: string;
  readonly recipient: string;
  readonly message_id: string;
  readonly status: string;
  readonly attempts: number;
  readonly reason: string | null;
  readonly lease_token: string | null;
  /** Milliseconds from now. */
  readonly due_in: number;
}

export function notifications(database: TestDatabase): Promise<NotificationRow[]> {
  return database.query<NotificationRow>(
    `SELECT id, event_id, recipient, message_id, status, attempts, reason, lease_token,
            extract(epoch FROM available_at - statement_timestamp())::float8 * 1000 AS due_in
     FROM notifications ORDER BY created_at, id`,
  );
}

/** Waits until so many have that status. */
export async function reached(database: TestDatabase, status: string, count: number): Promise<void> {
  await waitFor(async () => (await database.count('notifications', 'status = $1', [status])) === count, {
    description: `${count} notifications to be ${status}`,
    timeoutMs: 20_000,
  });
}

/** What waits for its next attempt need not wait any longer. */
export async function makeDue(database: TestDatabase): Promise<void> {
  await database.query(`UPDATE notifications SET available_at = statement_timestamp() WHERE status = 'due'`);
}

/** Lets the leases of those who are gone lapse. */
export async function lapseLeases(database: TestDatabase): Promise<void> {
  await database.query(`UPDATE notifications SET lease_until = '-infinity' WHERE lease_until IS NOT NULL`);
  await database.query(`UPDATE outbox SET lease_until = '-infinity' WHERE lease_until IS NOT NULL`);
}
