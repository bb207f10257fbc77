import { problemType } from '../http/problem.js';

export const DuplicateExternalRef = problemType({
  code: 'duplicate-external-ref',
  status: 409,
  title: 'There is an order with this external reference',
  underKey: 'stored',
  explanation: 'The external reference names one order of your tenant, and that order exists. "orderId" is its id.',
  remedy:
    'If this was a retry after the key had expired, your order is the one in "orderId". Otherwise use another reference.',
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
