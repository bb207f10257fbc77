import type { Sql } from '../sandbox-database.js';
import { newId } from '../stripe/ids.js';

export type EventType =
  | 'payment_intent.succeeded'
  | 'payment_intent.payment_failed'
  | 'charge.refunded'
  | 'refund.created'
  | 'refund.updated'
  | 'refund.failed';

/** The version of Stripe's API that objects are shaped as. */
export const API_VERSION = '2026-10-28.endive';

/** The request that something happened by; nulls where it happened by itself, or in the dashboard. */
export interface Cause {
  readonly requestId: string | null;
  readonly idempotencyKey: string | null;
}

export const NO_REQUEST: Cause = { requestId: null, idempotencyKey: null };

/**
 * In the transaction of what it tells of, as it is now: https://docs.stripe.com/api/events/object. The text is kept as it
 * will be signed and sent, so that every delivery is the same.
 */
export async function recordEvent(sql: Sql, type: EventType, object: object, cause: Cause): Promise<void> {
  const id = newId('evt');
  const event = {
    id,
    object: 'event',
    api_version: API_VERSION,
    created: Math.floor(Date.now() / 1_000),
    data: { object },
    livemode: false,
    pending_webhooks: 1,
    request: { id: cause.requestId, idempotency_key: cause.idempotencyKey },
    type,
  };
  await sql.query(
    `INSERT INTO sandbox.events (id, type, payload, next_attempt_at) VALUES ($1, $2, $3, statement_timestamp())`,
    [id, type, JSON.stringify(event)],
  );
}
