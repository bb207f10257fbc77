import { problemType } from '../http/problem.js';

export const PaymentDeclined = problemType({
  code: 'payment-declined',
  status: 402,
  title: 'The provider said no',
  underKey: 'stored',
  explanation:
    'The provider refused to move the money, and none has moved. "declineCode" is its reason, "paymentId" the payment.',
  remedy: 'Ask for another means of payment, and pay with a new Idempotency-Key: this one replays the refusal.',
});

export const PaymentFailed = problemType({
  code: 'payment-failed',
  status: 402,
  title: 'There is no trace of the money',
  underKey: 'stored',
  explanation:
    'The outcome was unknown, and the provider showed nothing of it for as long as it could have. The payment, or the refund, has been given up. "paymentId" is the payment.',
  remedy: 'Try again with a new Idempotency-Key. Should the money have moved after all, it is found and given back.',
});

export const OrderAlreadyPaid = problemType({
  code: 'order-already-paid',
  status: 409,
  title: 'The order has been paid',
  underKey: 'stored',
  explanation: 'A payment of the order has succeeded, whether or not it was refunded since. "orderId" is the order.',
  remedy: 'Read the payments of the order. If you mean to sell again, make a new order.',
});

export const OrderNotPayable = problemType({
  code: 'order-not-payable',
  status: 409,
  title: 'The order cannot be paid',
  underKey: 'stored',
  explanation: 'The order is cancelled. "orderId" is the order.',
  remedy: 'Make a new order.',
});

export const RefundExceedsPayment = problemType({
  code: 'refund-exceeds-payment',
  status: 422,
  title: 'More is asked back than is left of the payment',
  underKey: 'stored',
  explanation:
    'What was refunded, what is reserved for refunds whose outcome is not known yet and this refund together exceed the payment, or the payment has not succeeded. "paymentId" is the payment, "refundable" what is left of it.',
  remedy: 'Ask for at most "refundable", with a new Idempotency-Key.',
});

export const PaymentOutcomeUnknown = problemType({
  code: 'payment-outcome-unknown',
  status: 503,
  title: 'It is not known yet whether the money has moved',
  underKey: 'kept-open',
  explanation:
    'The provider was called, and its answer was lost or has not come. The payment stays open; nobody calls again before it is known what the first call did.',
  remedy:
    'Send the same request with the same Idempotency-Key again, after the time in Retry-After: it asks the provider and goes on. Never use a new key for the same payment. The service finds the outcome out by itself as well.',
});

export const BadSignature = problemType({
  code: 'bad-signature',
  status: 400,
  title: 'The message is not signed by the provider',
  underKey: 'released',
  explanation: 'The Stripe-Signature header does not fit the bytes of the body, is too old, or is missing.',
  remedy: "Check that STRIPE_WEBHOOK_SECRET is the endpoint's, and that nothing on the way changes the body.",
});
