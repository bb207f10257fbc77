import type { OrderView } from './order-view.js';

/** What the OpenAPI document shows. */
export const ORDER_EXAMPLE: OrderView = {
  id: '01a228ef-4efb-7035-9eea-4dd650750e47',
  externalRef: 'web-10042',
  status: 'pending',
  currency: 'EUR',
  items: [{ sku: 'TEA-EARL-GREY', quantity: 2, unitAmount: 1250 }],
  totalAmount: 2500,
  metadata: { channel: 'web' },
  version: 1,
  createdAt: '2026-11-29T20:11:41.698Z',
  updatedAt: '2026-11-29T20:11:41.698Z',
};

export const NEW_ORDER_EXAMPLES = {
  complete: {
    summary: 'With everything',
    value: {
      externalRef: 'web-10042',
      currency: 'EUR',
      items: [{ sku: 'TEA-EARL-GREY', quantity: 2, unitAmount: 1250 }],
      metadata: { channel: 'web' },
      clientContext: { attempt: 1, sentAt: '2026-11-29T20:11:41Z' },
    },
  },
  minimal: {
    summary: 'With what is required',
    value: { currency: 'EUR', items: [{ sku: 'TEA-EARL-GREY', unitAmount: 1250 }] },
  },
};

export const CHANGES_EXAMPLES = {
  items: { summary: 'Other items', value: { items: [{ sku: 'TEA-EARL-GREY', quantity: 3, unitAmount: 1250 }] } },
  metadata: { summary: 'Other metadata', value: { metadata: { channel: 'phone' } } },
};
