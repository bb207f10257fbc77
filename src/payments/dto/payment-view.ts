import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  type Payment,
  PAYMENT_METHODS,
  PAYMENT_STATUSES,
  type PaymentMethod,
  type PaymentStatus,
} from '../payment.entity.js';

/** A payment as clients and events see it. */
@ApiSchema({ name: 'Payment' })
export class PaymentView {
  @ApiProperty({ format: 'uuid' })
  id!: string;

  @ApiProperty({ format: 'uuid' })
  orderId!: string;

  @ApiProperty({ enum: PAYMENT_STATUSES, description: 'pending: the outcome is not known yet' })
  status!: PaymentStatus;

  @ApiProperty({ type: 'integer', description: "Minor units: the order's total when the payment began" })
  amount!: number;

  @ApiProperty({ type: 'integer', description: 'Minor units that were given back' })
  refundedAmount!: number;

  @ApiProperty({ description: 'ISO 4217' })
  currency!: string;

  @ApiProperty({ enum: PAYMENT_METHODS })
  method!: PaymentMethod;

  @ApiProperty({ type: String, nullable: true, description: "The provider's name for it" })
  providerRef!: string | null;

  @ApiProperty({ type: String, nullable: true, description: "Why it was declined, in the provider's words" })
  declineCode!: string | null;

  @ApiProperty({ type: 'integer', description: 'Rises with each change' })
  version!: number;

  @ApiProperty({ format: 'date-time' })
  createdAt!: string;

  @ApiProperty({ format: 'date-time' })
  updatedAt!: string;
}

export class PaymentPage {
  @ApiProperty({ type: [PaymentView] })
  data!: PaymentView[];

  @ApiProperty({ type: String, nullable: true, description: 'For `after`; null: this page is the last one' })
  nextCursor!: string | null;
}

export function paymentView(payment: Payment): PaymentView {
  return {
    id: payment.id,
    orderId: payment.orderId,
    status: payment.status,
    amount: payment.amount,
    refundedAmount: payment.refundedAmount,
    currency: payment.currency,
    method: payment.method,
    providerRef: payment.providerRef,
    declineCode: payment.declineCode,
    version: payment.version,
    createdAt: payment.createdAt.toISOString(),
    updatedAt: payment.updatedAt.toISOString(),
  };
}
