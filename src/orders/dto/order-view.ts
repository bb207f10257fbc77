import { ApiProperty } from '@nestjs/swagger';
import { type Order, ORDER_STATUSES, type OrderStatus } from '../order.entity.js';

export class OrderItemView {
  @ApiProperty({ example: 'TEA-EARL-GREY' })
  sku!: string;

  @ApiProperty({ type: 'integer', example: 2 })
  quantity!: number;

  @ApiProperty({ type: 'integer', example: 1250, description: 'Minor units' })
  unitAmount!: number;
}

/** An order as clients and events see it. */
export class OrderView {
  @ApiProperty({ format: 'uuid' })
  id!: string;

  @ApiProperty({ type: String, nullable: true, example: 'web-10042' })
  externalRef!: string | null;

  @ApiProperty({ enum: ORDER_STATUSES })
  status!: OrderStatus;

  @ApiProperty({ example: 'EUR' })
  currency!: string;

  @ApiProperty({ type: [OrderItemView] })
  items!: readonly OrderItemView[];

  @ApiProperty({ type: 'integer', example: 2500, description: 'Minor units' })
  totalAmount!: number;

  @ApiProperty({ type: Object, additionalProperties: { type: 'string' } })
  metadata!: Record<string, string>;

  @ApiProperty({ type: 'integer', example: 1 })
  version!: number;

  @ApiProperty({ format: 'date-time' })
  createdAt!: string;

  @ApiProperty({ format: 'date-time' })
  updatedAt!: string;
}

export class OrderPage {
  @ApiProperty({ type: [OrderView] })
  data!: OrderView[];

  @ApiProperty({ type: String, nullable: true })
  nextCursor!: string | null;
}

export function viewOf(order: Order): OrderView {
  return {
    id: order.id,
    externalRef: order.externalRef,
    status: order.status,
    currency: order.currency,
    items: order.items,
    totalAmount: order.totalAmount,
    metadata: order.metadata,
    version: order.version,
    createdAt: order.createdAt.toISOString(),
    updatedAt: order.updatedAt.toISOString(),
  };
}
