import { Column, Entity, PrimaryColumn, type ValueTransformer } from 'typeorm';

export const ORDER_STATUSES = ['pending', 'paid', 'partially_refunded', 'refunded', 'cancelled'] as const;
export type OrderStatus = (typeof ORDER_STATUSES)[number];

export interface OrderItem {
  readonly sku: string;
  readonly quantity: number;
  /** Minor units of the order's currency. */
  readonly unitAmount: number;
}

/** `bigint` arrives as text; the table holds no amount beyond 2^53 - 1. */
const amount: ValueTransformer = { from: Number, to: (value: unknown) => value };

/** An order. Its items are always replaced as a whole, so they live in its row. */
@Entity('orders')
export class Order {
  @PrimaryColumn('uuid', { name: 'tenant_id' })
  tenantId!: string;

  @PrimaryColumn('uuid')
  id!: string;

  @Column('text', { name: 'external_ref', nullable: true })
  externalRef!: string | null;

  @Column('text')
  status!: OrderStatus;

  @Column('text')
  currency!: string;

  @Column('jsonb')
  items!: OrderItem[];

  /** Minor units, 1 to 2^53 - 1. */
  @Column('bigint', { name: 'total_amount', transformer: amount })
  totalAmount!: number;

  @Column('jsonb')
  metadata!: Record<string, string>;

  /** Raised by exactly one with each change. */
  @Column('integer')
  version!: number;

  /** The payment that is under way or has succeeded. While it is pending the order is closed to edits. */
  @Column('uuid', { name: 'live_payment_id', nullable: true })
  livePaymentId!: string | null;

  /** Whether there ever was a payment, live or not: then the order cannot be deleted. */
  @Column('boolean', { name: 'had_payment' })
  hadPayment!: boolean;

  @Column('timestamptz', { name: 'created_at' })
  createdAt!: Date;

  @Column('timestamptz', { name: 'updated_at' })
  updatedAt!: Date;

  @Column('timestamptz', { name: 'deleted_at', nullable: true })
  deletedAt!: Date | null;
}

/** The columns of {@link Order} under the names of its properties, for SQL that is written out. */
export const ORDER_COLUMNS = `
  orders.tenant_id AS "tenantId", orders.id, orders.external_ref AS "externalRef", orders.status, orders.currency,
  orders.items, orders.total_amount::float8 AS "totalAmount", orders.metadata, orders.version,
  orders.live_payment_id AS "livePaymentId", orders.had_payment AS "hadPayment",
  orders.created_at AS "createdAt", orders.updated_at AS "updatedAt", orders.deleted_at AS "deletedAt"`;
