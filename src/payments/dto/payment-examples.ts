import { ORDER_EXAMPLE } from '../../orders/dto/order-examples.js';
import type { PaymentView } from './payment-view.js';
import type { RefundView } from './refund-view.js';

export const PAYMENT_EXAMPLE: PaymentView = {
  id: '01a228f0-1b7c-7d0e-8f64-3c1d8a5b9e02',
  orderId: ORDER_EXAMPLE.id,
  status: 'succeeded',
  amount: ORDER_EXAMPLE.totalAmount,
  refundedAmount: 0,
  currency: ORDER_EXAMPLE.currency,
  method: 'card',
  providerRef: 'pi_3Q1f0aJ2eZvKYlo2',
  declineCode: null,
  version: 2,
  createdAt: '2026-11-29T20:12:03.114Z',
  updatedAt: '2026-11-29T20:12:03.391Z',
};

export const REFUND_EXAMPLE: RefundView = {
  id: '01a228f1-90aa-7c3f-b1d8-52e9a07c4d13',
  paymentId: PAYMENT_EXAMPLE.id,
  amount: 1250,
  currency: PAYMENT_EXAMPLE.currency,
  status: 'succeeded',
  reason: 'One of two came broken',
  reference: 'return-77',
  version: 2,
  createdAt: '2026-11-29T21:02:40.008Z',
  updatedAt: '2026-11-29T21:02:40.267Z',
};

export const NEW_PAYMENT_EXAMPLES = {
  card: { value: { method: 'card', paymentMethod: 'pm_card_visa', receiptEmail: 'ada@shop.example' } },
  bankTransfer: { value: { method: 'bank_transfer', account: 'DE89370400440532013000' } },
};

export const NEW_REFUND_EXAMPLES = {
  part: { value: { amount: 1250, reason: 'One of two came broken', reference: 'return-77' } },
  allThatIsLeft: { value: {} },
};
