import type { PaymentsWorld } from './payments-world.js';

export interface OrderRow {
  readonly id: string;
  readonly status: string;
  readonly version: number;
  readonly livePaymentId: string | null;
  readonly deleted: boolean;
}
export interface PaymentRow {
  readonly id: string;
  readonly orderId: string;
  readonly status: string;
  readonly amount: number;
  readonly refundedAmount: number;
  readonly reservedAmount: number;
  readonly version: number;
}
export interface RefundRow {
  readonly id: string;
  readonly paymentId: string;
  readonly amount: number;
  readonly status: string;
  readonly providerRef: string | null;
  readonly version: number;
}
export interface MovementRow {
  readonly ref: string;
  readonly kind: 'charge' | 'refund' | 'refund_reversal';
  readonly paymentId: string;
  readonly amount: number;
  readonly surplus: boolean;
}
export interface EventRow {
  readonly id: string;
  readonly subject: string;
  readonly aggregate: string;
  readonly version: number;
  readonly type: string;
  readonly data: { readonly status?: string; readonly version?: number };
}
/** Money that really moved: a charge, or what was given back of one. */
export interface ProviderMovement {
  readonly ref: string;
  readonly kind: 'charge' | 'refund';
  /** Ours, from the metadata or the bank's reference. */
  readonly paymentId: string;
  /** Of the charge that it is, or gives back of. */
  readonly chargeRef: string;
  readonly amount: number;
  readonly state: 'succeeded' | 'pending' | 'failed';
}

/** What only a person can answer about a charge that was to be given back. */
export interface SurplusQuestion {
  readonly id: string;
  readonly paymentId: string;
  readonly chargeRef: string;
  readonly amount: number;
  /** `sent`: nobody knows whether it was given back; `returned`: it was, and the money came back, the card being closed. */
  readonly status: 'sent' | 'returned';
}

/** Both databases at one time. */
export interface Snapshot {
  readonly orders: readonly OrderRow[];
  readonly payments: readonly PaymentRow[];
  readonly refunds: readonly RefundRow[];
  /** In the order in which they were booked. */
  readonly movements: readonly MovementRow[];
  readonly events: readonly EventRow[];
  readonly provider: readonly ProviderMovement[];
  /** Keys that are not completed. */
  readonly openKeys: readonly { readonly key: string; readonly endpoint: string; readonly recoveryPoint: string }[];
  readonly openSurplus: readonly { readonly id: string; readonly paymentId: string; readonly status: string }[];
  /** Open reviews of surplus charges. */
  readonly questions: readonly SurplusQuestion[];
  /** Webhooks that have not been taken yet, and refunds of which the provider will tell more by itself. */
  readonly untold: number;
}

export async function takeSnapshot({ database, provider }: PaymentsWorld): Promise<Snapshot> {
  const [orders, payments, refunds, movements, events, openKeys, openSurplus, questions, moved, undelivered, settling] =
    await Promise.all([
      database.query<OrderRow & Record<string, unknown>>(
        `SELECT id, status, version, live_payment_id AS "livePaymentId", deleted_at IS NOT NULL AS deleted FROM orders ORDER BY id`,
      ),
      database.query<PaymentRow & Record<string, unknown>>(
        `SELECT id, order_id AS "orderId", status, amount::int, refunded_amount::int AS "refundedAmount",
              reserved_amount::int AS "reservedAmount", version
       FROM payments ORDER BY created_at, id`,
      ),
      database.query<RefundRow & Record<string, unknown>>(
        `SELECT id, payment_id AS "paymentId", amount::int, status, provider_ref AS "providerRef", version
       FROM refunds ORDER BY id`,
      ),
      database.query<MovementRow & Record<string, unknown>>(
        `SELECT provider_ref AS ref, kind, payment_id AS "paymentId", amount::int, surplus
       FROM money_movements ORDER BY created_at, provider_ref`,
      ),
      database.query<EventRow & Record<string, unknown>>(
        `SELECT id, aggregateid AS subject, aggregatetype AS aggregate, aggregateversion AS version, type, payload AS data
       FROM outbox ORDER BY aggregateid, aggregateversion`,
      ),
      database.query<Snapshot['openKeys'][number] & Record<string, unknown>>(
        `SELECT key, endpoint, recovery_point AS "recoveryPoint" FROM idempotency_keys WHERE status <> 'completed'`,
      ),
      database.query<Snapshot['openSurplus'][number] & Record<string, unknown>>(
        `SELECT id, payment_id AS "paymentId", status FROM surplus_charges WHERE status <> 'returned'`,
      ),
      database.query<SurplusQuestion & Record<string, unknown>>(
        `SELECT r.id, s.payment_id AS "paymentId", s.charge_ref AS "chargeRef", s.amount::int, s.status
       FROM payment_reviews r JOIN surplus_charges s ON s.tenant_id = r.tenant_id AND s.id = r.subject_id
       WHERE r.resolved_at IS NULL AND r.reason = 'surplus-not-returned'`,
      ),
      provider.query<ProviderMovement & Record<string, unknown>>(`
      SELECT id AS ref, 'charge' AS kind, metadata->>'payment' AS "paymentId", id AS "chargeRef", amount::int, status AS state
      FROM sandbox.payment_intents WHERE status = 'succeeded'
      UNION ALL
      SELECT r.id, 'refund', i.metadata->>'payment', i.id, r.amount::int, r.status
      FROM sandbox.refunds r JOIN sandbox.payment_intents i ON i.id = r.payment_intent
      UNION ALL
      SELECT id, 'charge', reference, id, amount::int, 'succeeded' FROM sandbox.bank_transfers WHERE refund_of IS NULL
      UNION ALL
      SELECT r.id, 'refund', c.reference, c.id, r.amount::int, 'succeeded'
      FROM sandbox.bank_transfers r JOIN sandbox.bank_transfers c ON c.id = r.refund_of ORDER BY ref`),
      provider.count('sandbox.events', 'delivered_at IS NULL'),
      provider.count('sandbox.refunds', 'settles_as IS NOT NULL'),
    ]);
  return {
    orders,
    payments,
    refunds,
    movements,
    events,
    openKeys,
    openSurplus,
    questions,
    provider: moved,
    untold: undelivered + settling,
  };
}
