import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { type Refund, REFUND_STATUSES, type RefundStatus } from '../refund.entity.js';

/** A refund as clients and events see it. */
@ApiSchema({ name: 'Refund' })
export class RefundView {
  @ApiProperty({ format: 'uuid' })
  id!: string;

  @ApiProperty({ format: 'uuid' })
  paymentId!: string;

  @ApiProperty({ type: 'integer', description: 'Minor units' })
  amount!: number;

  @ApiProperty({ description: 'ISO 4217' })
  currency!: string;

  @ApiProperty({
    enum: REFUND_STATUSES,
    description: 'pending: the outcome is not known yet, or the money is on its way',
  })
  status!: RefundStatus;

  @ApiProperty({ type: String, nullable: true })
  reason!: string | null;

  @ApiProperty({ type: String, nullable: true, description: "The refund's name in your system" })
  reference!: string | null;

  @ApiProperty({ type: 'integer', description: 'Rises with each change' })
  version!: number;

  @ApiProperty({ format: 'date-time' })
  createdAt!: string;

  @ApiProperty({ format: 'date-time' })
  updatedAt!: string;
}

export class RefundPage {
  @ApiProperty({ type: [RefundView] })
  data!: RefundView[];

  @ApiProperty({ type: String, nullable: true, description: 'For `after`; null: this page is the last one' })
  nextCursor!: string | null;
}

export function refundView(refund: Refund): RefundView {
  return {
    id: refund.id,
    paymentId: refund.paymentId,
    amount: refund.amount,
    currency: refund.currency,
    status: refund.status,
    reason: refund.reason,
    reference: refund.reference,
    version: refund.version,
    createdAt: refund.createdAt.toISOString(),
    updatedAt: refund.updatedAt.toISOString(),
  };
}
