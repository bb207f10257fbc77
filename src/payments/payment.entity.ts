export const PAYMENT_STATUSES = ['pending', 'succeeded', 'declined', 'failed'] as const;
export type PaymentStatus = (typeof PAYMENT_STATUSES)[number];

export const PAYMENT_METHODS = ['card', 'bank_transfer'] as const;
export type PaymentMethod = (typeof PAYMENT_METHODS)[number];

/** One attempt to get an order paid. Amounts are minor units. */
export interface Payment {
  readonly tenantId: string;
  readonly id: string;
  readonly orderId: string;
  /** `pending`: the provider's outcome is not known yet. */
  readonly status: PaymentStatus;
  readonly amount: number;
  /** Given back for certain. */
  readonly refundedAmount: number;
  /** Held for refunds whose outcome is not known yet. */
  readonly reservedAmount: number;
  readonly currency: string;
  readonly method: PaymentMethod;
  readonly providerRef: string | null;
  readonly declineCode: string | null;
  readonly receiptEmail: string | null;
  /** Of the operation that began it. */
  readonly operationId: string;
  /** No call to the provider was made before. The database's clock. */
  readonly sentAt: Date;
  readonly version: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** The columns of {@link Payment} under the names of its properties. */
export const PAYMENT_COLUMNS = `
  payments.tenant_id AS "tenantId", payments.id, payments.order_id AS "orderId", payments.status,
  payments.amount::float8 AS amount, payments.refunded_amount::float8 AS "refundedAmount",
  payments.reserved_amount::float8 AS "reservedAmount", payments.currency, payments.method,
  payments.provider_ref AS "providerRef", payments.decline_code AS "declineCode",
  payments.receipt_email AS "receiptEmail", payments.operation_id AS "operationId", payments.sent_at AS "sentAt",
  payments.version, payments.created_at AS "createdAt", payments.updated_at AS "updatedAt"`;
