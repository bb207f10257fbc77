import { v7 as uuidv7 } from 'uuid';
import type { Transaction } from '../database/transaction.js';
import type { UnitOfWork } from '../database/unit-of-work.js';
import type { Receipt } from './receipt.js';

/** Milliseconds before the second attempt; doubled each time, up to the longest. */
const FIRST_DELAY = 5_000;
const LONGEST_DELAY = 3_600_000;
/** Attempts after which a notification is given up: with these delays a day. */
export const MOST_ATTEMPTS = 32;

const LONGEST_REASON = 500;

export interface NewNotification {
  readonly eventId: string;
  readonly channel: 'email';
  /** Undefined: the event gave one that cannot be used. */
  readonly recipient: string | undefined;
  readonly content: Receipt;
}

/** A notification that a sender has taken. */
export interface TakenNotification {
  readonly tenantId: string;
  readonly id: string;
  readonly messageId: string;
  readonly recipient: string;
  readonly content: Receipt;
  readonly createdAt: Date;
  /** This one included. */
  readonly attempts: number;
  readonly token: string;
}

/**
 * The intent to tell somebody, once for each event and channel: the constraint holds also where the inbox has forgotten
 * the event. Nobody waits for what cannot be sent at all: it stands there as failed.
 */
export async function insertNotification(
  transaction: Transaction,
  { eventId, channel, recipient, content }: NewNotification,
): Promise<void> {
  const id = uuidv7();
  const isUsable = recipient !== undefined;
  await transaction.query(
    `INSERT INTO notifications (tenant_id, id, event_id, channel, recipient, content, message_id, status, reason, ended_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $8 = 'failed' THEN statement_timestamp() END)
     ON CONFLICT (tenant_id, event_id, channel) DO NOTHING`,
    [
      ...[transaction.tenantId, id, eventId, channel, recipient ?? '', JSON.stringify(content), `<${id}@orders>`],
      ...(isUsable ? ['due', null] : ['failed', 'The address cannot be used']),
    ],
  );
}

/** Finds which tenants have something to send. */
export const TENANTS_WITH_NOTIFICATIONS = `
  SELECT DISTINCT tenant_id FROM notifications
  WHERE status = 'due' AND available_at <= statement_timestamp()
    AND coalesce(lease_until, '-infinity') <= statement_timestamp()`;

/**
 * Makes the one that has waited longest the sender's. Locked first, in a statement of its own that passes over what
 * others have locked: of two senders each takes another. The attempt counts from here on, so that a mail that kills its
 * senders comes to an end, too.
 *
 * @param lease milliseconds
 */
export async function takeNotification(
  transaction: Transaction,
  token: string,
  lease: number,
): Promise<TakenNotification | undefined> {
  const { tenantId } = transaction;
  const [free] = await transaction.query<{ id: string }>(
    `SELECT id FROM notifications
     WHERE tenant_id = $1 AND status = 'due' AND available_at <= statement_timestamp()
       AND coalesce(lease_until, '-infinity') <= statement_timestamp()
     ORDER BY available_at, id LIMIT 1 FOR UPDATE SKIP LOCKED`,
    [tenantId],
  );
  if (!free) return undefined;
  const [taken] = await transaction.query<Omit<TakenNotification, 'tenantId' | 'token'>>(
    `UPDATE notifications SET
       lease_token = $3, lease_until = statement_timestamp() + $4::float8 * interval '1 millisecond',
       attempts = attempts + 1
     WHERE tenant_id = $1 AND id = $2
     RETURNING id, message_id AS "messageId", recipient, content, created_at AS "createdAt", attempts`,
    [tenantId, free.id, token, lease],
  );
  return { ...taken!, tenantId, token };
}

/** What became of a notification. */
export type Ending =
  | { readonly kind: 'sent' }
  | { readonly kind: 'failed' | 'later'; readonly reason: string }
  /** It was not tried: the attempt does not count. */
  | { readonly kind: 'untried' };

const ENDINGS = {
  sent: `status = 'sent', ended_at = statement_timestamp(), reason = $4`,
  failed: `status = 'failed', ended_at = statement_timestamp(), reason = $4`,
  later: `reason = $4, available_at = statement_timestamp()
    + least(${FIRST_DELAY} * power(2, attempts - 1), ${LONGEST_DELAY}) * interval '1 millisecond'`,
  untried: `reason = coalesce($4, reason), attempts = attempts - 1`,
} as const;

/**
 * Writes it down, as far as the notification is still this sender's: what another one has taken over is that one's.
 *
 * @returns whether it was
 */
export async function endNotification(
  unitOfWork: UnitOfWork,
  { tenantId, id, token }: TakenNotification,
  ending: Ending,
): Promise<boolean> {
  const reason = 'reason' in ending ? written(ending.reason) : null;
  const ended = await unitOfWork.run(tenantId, (transaction) =>
    transaction.query(
      `UPDATE notifications SET lease_token = NULL, lease_until = NULL, ${ENDINGS[ending.kind]}
       WHERE tenant_id = $1 AND id = $2 AND lease_token = $3 AND status = 'due' RETURNING 1`,
      [tenantId, id, token, reason],
    ),
  );
  return ended.length > 0;
}

/** A server may say anything, and Postgres takes no NUL. */
function written(reason: string): string {
  return reason.replaceAll('\0', '').slice(0, LONGEST_REASON).toWellFormed();
}
