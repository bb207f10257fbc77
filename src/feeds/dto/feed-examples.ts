import type { Acknowledgement, FeedView, OpenedEpoch } from './feed-view.js';

/** What the OpenAPI document shows. */
export const FEED_EXAMPLE: FeedView = { feed: 'till-7', epoch: 2, lastSequence: 500 };
export const OPENED_EXAMPLE: OpenedEpoch = { feed: 'till-7', epoch: 2, nextSequence: 501 };
export const ACKNOWLEDGEMENT_EXAMPLE: Acknowledgement = { epoch: 1, lastSequence: 2, applied: 2, duplicates: 0 };

export const BATCH_EXAMPLES = {
  two: {
    summary: 'The first two records of a feed',
    value: {
      epoch: 1,
      firstSequence: 1,
      records: [
        {
          externalRef: 'till-7-10042',
          currency: 'EUR',
          items: [{ sku: 'TEA-EARL-GREY', quantity: 2, unitAmount: 1250 }],
          metadata: { cashier: '12' },
        },
        { externalRef: 'till-7-10043', currency: 'EUR', items: [{ sku: 'TEA-EARL-GREY', unitAmount: 1250 }] },
      ],
    },
  },
};
