import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { type Order, ORDER_STATUSES, type OrderStatus } from '../order.entity.js';

@ApiSchema({ name: 'OrderItem' })
export class OrderItemView {
  @ApiProperty({ example: 'TEA-EARL-GREY' })
  sku!: string;

  @ApiProperty({ type: 'integer', example: 2 })
  quantity!: number;

  @ApiProperty({ type: 'integer', example: 1250, description: 'Minor units' })
  unitAmount!: number;
}

/** An order as clients and events see it. */
@ApiSchema({ name: 'Order' })
export class OrderView {
  @ApiProperty({ format: 'uuid', example: '01a228ef-4efb-7035-9eea-4dd650750e47' })
  id!: string;

  @ApiProperty({ type: String, nullable: true, example: 'web-10042', description: "The order's name in your system" })
  externalRef!: string | null;

  @ApiProperty({ enum: ORDER_STATUSES })
  status!: OrderStatus;

  @ApiProperty({ description: 'ISO 4217', example: 'EUR' })
  currency!: string;

  @ApiProperty({ type: [OrderItemView] })
  items!: readonly OrderItemView[];

  @ApiProperty({ type: 'integer', example: 2500, description: 'Minor units' })
  totalAmount!: number;

  @ApiProperty({ type: Object, additionalProperties: { type: 'string' } })
  metadata!: Record<string, string>;

  @ApiProperty({
    type: 'integer',
    example: 1,
    description: 'Raised by exactly one with each change; the ETag is made of it',
  })
  version!: number;

  @ApiProperty({ format: 'date-time' })
  createdAt!: string;

  @ApiProperty({ format: 'date-time' })
  updatedAt!: string;
}

export class OrderPage {
  @ApiProperty({ type: [OrderView] })
  data!: OrderView[];

  @ApiProperty({ type: String, nullable: true, description: 'For `after`; null: this page is the last one' })
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
