import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { v7 as uuidv7 } from 'uuid';

/** Where statements can be sent: a test's database, or a connection of its own. */
interface Target {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** Writes events as if the service had: of so many aggregates, each at versions 1 to `versions`. None has a position yet. */
export async function insertEvents(
  target: Target,
  tenantId: string,
  { aggregates, versions }: { aggregates: number; versions: number },
): Promise<void> {
  await target.query(
    `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
     SELECT $1, gen_random_uuid(), 'order', aggregate.id, version, 'order.updated', '{}'
     FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $2) OFFSET 0) aggregate, generate_series(1, $3) version`,
    [tenantId, aggregates, versions],
  );
}

/** Puts orders at version 1 into the table, with their events; gives their ids, sorted. */
export async function insertOrders(target: Target, tenantId: string, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID()).sort();
  await target.query(
    `INSERT INTO orders (tenant_id, id, status, currency, items, total_amount, metadata, version)
     SELECT $1, unnest($2::uuid[]), 'pending', 'EUR', '[{"sku":"tea","quantity":1,"unitAmount":1}]', 1, '{}', 1`,
    [tenantId, ids],
  );
  for (const id of ids) await insertEvent(target, tenantId, { id: uuidv7(), aggregateId: id, version: 1 });
  return ids;
}

/**
 * Raises an order's version and tells of it, as `OrdersService` and `Outbox` do: the version comes from the locked row.
 *
 * @returns the id of the event
 */
export async function changeOrder(client: pg.Client, tenantId: string, orderId: string): Promise<string> {
  const { rows } = await client.query<{ version: number }>(
    'UPDATE orders SET version = version + 1 WHERE tenant_id = $1 AND id = $2 RETURNING version',
    [tenantId, orderId],
  );
  const id = uuidv7();
  await insertEvent(client, tenantId, { id, aggregateId: orderId, version: rows[0]!.version });
  return id;
}

interface NewEvent {
  readonly id: string;
  readonly aggregateId: string;
  readonly version: number;
}

/** One event, with the columns that `Outbox` writes. */
export async function insertEvent(
  target: Target,
  tenantId: string,
  { id, aggregateId, version }: NewEvent,
): Promise<void> {
  await target.query(
    `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
     VALUES ($1, $2, 'order', $3, $4, $5, '{}')`,
    [tenantId, id, aggregateId, version, version === 1 ? 'order.created' : 'order.updated'],
  );
}
