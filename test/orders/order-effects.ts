import type { OrderView } from '../../src/orders/dto/order-view.js';
import { newOrder } from '../support/api-client.js';
import type { TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';

/** Makes an order, with what a test wants different: one row, one event, one key record. */
export async function createOrder(service: TestApp, different: Record<string, unknown> = {}): Promise<OrderView> {
  const { status, text, body } = await service.as().post('/v1/orders', newOrder(different));
  if (status !== 201) throw new Error(`No order was created: ${status} ${text}`);
  return body as OrderView;
}

/** What the outbox tells of an order, by version: `['order.created 1', 'order.updated 2']`. */
export async function eventsOf({ database }: TestApp, orderId: string): Promise<string[]> {
  const events = await database.query<{ event: string }>(
    `SELECT type || ' ' || aggregateversion AS event FROM outbox WHERE aggregateid = $1 ORDER BY aggregateversion`,
    [orderId],
  );
  return events.map(({ event }) => event);
}

/** How often each status is among the answers: `{ 201: 1, 409: 19 }`. */
export function tally(answers: readonly { readonly status: number }[]): Record<number, number> {
  const times: Record<number, number> = {};
  for (const { status } of answers) times[status] = (times[status] ?? 0) + 1;
  return times;
}

/** Waits until that many connections of the service stand before a lock that somebody else holds. */
export async function waitForBlocked({ database }: TestApp, connections = 1): Promise<void> {
  await waitFor(
    async () =>
      (await database.count(
        'pg_stat_activity',
        `datname = current_database() AND application_name = 'orders-service' AND wait_event_type = 'Lock'`,
      )) >= connections,
    { description: `${connections} connections of the service to wait for a lock` },
  );
}
