import { DatabaseUnavailableError } from '../../../src/database/database.errors.js';
import { Consumers } from '../../../src/messaging/consumers.js';
import { waitFor } from '../../support/wait-for.js';
import { ACME } from '../../support/test-app.js';
import { type Cause, cause, CONSUMED, deliveries, messages, requests } from './cause.js';
import type { MeteredApp } from './metered-app.js';

const ORDERED = { [requests('orders.create', 'executed')]: 1 };

/** An order whose event the consumer has refused once. */
async function refusedEvent(app: MeteredApp): Promise<void> {
  app.failOnce();
  await app.paying.order();
  await app.settled();
}

const dead = ({ paying }: MeteredApp) =>
  waitFor(() => paying.database.count('outbox', 'dead_at IS NOT NULL'), { description: 'the event to be put aside' });

export const MESSAGE_CAUSES: readonly Cause[] = [
  cause({
    cause: 'an event is refused by its consumer, and waits',
    happen: refusedEvent,
    moves: { [deliveries('refused')]: 1, [messages('failed')]: 1, orders_outbox_pending: 1, ...ORDERED },
  }),
  cause({
    cause: 'it is refused for the last time, and is put aside',
    before: refusedEvent,
    happen: async (app) => {
      app.failOnce();
      await app.sql('UPDATE outbox SET available_at = NULL');
      await dead(app);
    },
    moves: {
      [deliveries('refused')]: 1,
      [messages('failed')]: 1,
      orders_events_dead_total: 1,
      orders_outbox_dead: 1,
    },
  }),
  cause({
    cause: 'an event is put aside because relays die of it',
    before: refusedEvent,
    happen: async (app) => {
      await app.sql('UPDATE outbox SET available_at = NULL, attempts_started = attempts_finished + 10');
      await dead(app);
    },
    moves: { orders_events_dead_total: 1, orders_outbox_dead: 1 },
  }),
  cause({
    cause: 'it is delivered after all',
    before: refusedEvent,
    happen: (app) => app.sql('UPDATE outbox SET available_at = NULL'),
    moves: { ...CONSUMED, orders_outbox_pending: -1 },
  }),
  cause({
    cause: 'time passes over an event that waits',
    before: refusedEvent,
    happen: (app) => app.sql(`UPDATE outbox SET created_at = created_at - interval '2 hours'`),
    moves: { orders_outbox_oldest_seconds: 2 },
  }),
  cause({
    cause: 'nothing can be delivered for a moment',
    happen: async (app) => {
      app.failOnce(() => new DatabaseUnavailableError(new Error('by the test')));
      await app.paying.order();
    },
    moves: { [deliveries('unavailable')]: 1, [messages('failed')]: 1, ...CONSUMED, ...ORDERED },
  }),
  cause({
    cause: 'an event comes again',
    before: (app) => app.paying.order(),
    happen: (app) => app.sql('UPDATE outbox SET published_at = NULL'),
    moves: { [deliveries('published')]: 1, [messages('repeated')]: 1 },
  }),
  cause({
    cause: 'a message makes no sense',
    happen: async (app) => {
      const consumers = app.get(Consumers);
      const consumer = consumers.all.find((each) => each.consumer === 'test.metered')!;
      await consumers.apply(consumer, ACME.tenantId, Buffer.from('{')).catch(() => undefined);
    },
    moves: { [messages('malformed')]: 1 },
  }),
];
