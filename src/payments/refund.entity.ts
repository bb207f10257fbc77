export const REFUND_STATUSES = ['pending', 'succeeded', 'failed'] as const;
export type RefundStatus = (typeof REFUND_STATUSES)[number];

/** Money of a payment that is given back. */
export interface Refund {
  readonly tenantId: string;
  readonly id: string;
  readonly paymentId: string;
  /** Minor units; reserved on the payment while the refund is pending. */
  readonly amount: number;
  readonly currency: string;
  readonly status: RefundStatus;
  readonly reason: string | null;
  /** The client's name for it, unique among the payment's refunds. */
  readonly reference: string | null;
  readonly providerRef: string | null;
  /** Null where it was not asked for through this service. */
  readonly operationId: string | null;
  /** No call to the provider was made before. The database's clock. */
  readonly sentAt: Date;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** The columns of {@link Refund} under the names of its properties. */
export const REFUND_COLUMNS = `
  refunds.tenant_id AS "tenantId", refunds.id, refunds.payment_id AS "paymentId", refunds.amount::float8 AS amount,
  refunds.currency, refunds.status, refunds.reason, refunds.reference, refunds.provider_ref AS "providerRef",
  refunds.operation_id AS "operationId", refunds.sent_at AS "sentAt", refunds.version,
  refunds.created_at AS "createdAt", refunds.updated_at AS "updatedAt"`;
