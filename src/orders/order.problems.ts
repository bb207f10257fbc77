import { problemType } from '../http/problem.js';

export const DuplicateExternalRef = problemType({
  code: 'duplicate-external-ref',
  status: 409,
  title: 'There is something with this reference',
  underKey: 'stored',
  explanation:
    'The reference names one order of your tenant, or one refund of a payment, and that exists. "orderId" or "refundId" is its id.',
  remedy:
    'If this was a retry after the key had expired, what you asked for is there under that id. Otherwise use another reference.',
});

export const OrderNotEditable = problemType({
  code: 'order-not-editable',
  status: 409,
  title: 'The order can no longer be changed',
  underKey: 'stored',
  explanation: 'Only pending orders can be changed, and only orders without any payment deleted. "orderId" is its id.',
  remedy: 'Read the order for its present state.',
});

export const OrderDeleted = problemType({
  code: 'order-deleted',
  status: 410,
  title: 'The order was deleted',
  underKey: 'released',
  explanation: 'An order with this id existed and was deleted. Its id is not given again.',
  remedy: 'Choose a new id.',
});

export const PaymentInProgress = problemType({
  code: 'payment-in-progress',
  status: 409,
  title: 'A payment of the order is under way',
  underKey: 'released',
  explanation:
    'The outcome of a payment of this order is not known yet. Until it is, the order can neither be changed nor paid by another request. "paymentId" is that payment.',
  remedy:
    'To learn the outcome, send the request that began the payment again with its own Idempotency-Key. Otherwise wait: the service finds the outcome out by itself.',
});
