import type { EntityManager } from 'typeorm';
import { LostRaceError } from '../database/database.errors.js';
import { violatesUnique } from '../database/sql-state.js';
import type { Transaction } from '../database/transaction.js';
import type { TimePosition } from '../http/time-position.js';
import type { OrderContent } from './order-content.js';
import { type Order, ORDER_COLUMNS, type OrderStatus } from './order.entity.js';

/**
 * Inserts the order unless its id is spent or its external reference is taken. `ON CONFLICT` and not an error: an error
 * would end the transaction, and with it the claim of the key.
 *
 * @returns `undefined` when it was not inserted
 */
export async function insertOrder(
  transaction: Transaction,
  id: string,
  content: OrderContent,
): Promise<Order | undefined> {
  const [order] = await transaction.query<Order>(
    `INSERT INTO orders (tenant_id, id, external_ref, status, currency, items, total_amount, metadata, version)
     VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, 1)
     ON CONFLICT DO NOTHING
     RETURNING ${ORDER_COLUMNS}`,
    [transaction.tenantId, id, ...columnsOf(content)],
  );
  return order;
}

/**
 * Creates the order of that external reference, or gives it that content, in one statement: of two at once, one creates
 * and the other finds what it has created. Leaves alone an order that has the content already or is not pending; its row
 * is locked all the same.
 *
 * The predicate of the partial index has to be repeated, or Postgres does not find it.
 *
 * @param id for a new order
 * @returns the order as it was created or changed; `undefined` when it was left alone
 */
export async function upsertOrder(
  transaction: Transaction,
  id: string,
  content: OrderContent,
): Promise<Order | undefined> {
  const [order] = await transaction.query<Order>(
    `INSERT INTO orders (tenant_id, id, external_ref, status, currency, items, total_amount, metadata, version)
     VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, 1)
     ON CONFLICT (tenant_id, external_ref) WHERE external_ref IS NOT NULL AND deleted_at IS NULL DO UPDATE SET
       currency = EXCLUDED.currency, items = EXCLUDED.items, total_amount = EXCLUDED.total_amount,
       metadata = EXCLUDED.metadata, version = orders.version + 1, updated_at = EXCLUDED.updated_at
     WHERE orders.status = 'pending' AND orders.live_payment_id IS NULL
       AND (orders.currency, orders.items, orders.metadata)
           IS DISTINCT FROM (EXCLUDED.currency, EXCLUDED.items, EXCLUDED.metadata)
     RETURNING ${ORDER_COLUMNS}`,
    [transaction.tenantId, id, ...columnsOf(content)],
  );
  return order;
}

/** Takes the order's row until the end of the transaction, deleted or not. */
export async function lockOrder(transaction: Transaction, id: string): Promise<Order | undefined> {
  const [order] = await transaction.query<Order>(
    `SELECT ${ORDER_COLUMNS} FROM orders WHERE tenant_id = $1 AND id = $2 FOR UPDATE`,
    [transaction.tenantId, id],
  );
  return order;
}

/** Takes the row of the living order with that external reference. */
export async function lockOrderOfRef(transaction: Transaction, externalRef: string): Promise<Order | undefined> {
  const [order] = await transaction.query<Order>(
    `SELECT ${ORDER_COLUMNS} FROM orders
     WHERE tenant_id = $1 AND external_ref = $2 AND deleted_at IS NULL FOR UPDATE`,
    [transaction.tenantId, externalRef],
  );
  return order;
}

/** The id of the living order with that external reference, without taking its row. */
export async function findOrderOfRef(transaction: Transaction, externalRef: string): Promise<string | undefined> {
  const [order] = await transaction.query<{ id: string }>(
    'SELECT id FROM orders WHERE tenant_id = $1 AND external_ref = $2 AND deleted_at IS NULL',
    [transaction.tenantId, externalRef],
  );
  return order?.id;
}

/**
 * Writes a new state over the version that was read, and over no other: the version in WHERE makes a writer with a stale
 * copy change nothing, where `save()` would write the old version back.
 *
 * @throws Error when the version is not the present one, which a caller that holds the row's lock never sees
 */
export async function updateOrder(
  transaction: Transaction,
  read: Order,
  next: OrderContent & Pick<Order, 'status'>,
): Promise<Order> {
  const update = transaction.query<Order>(
    `UPDATE orders SET
       external_ref = $4, currency = $5, items = $6, total_amount = $7, metadata = $8, status = $9,
       version = version + 1, updated_at = statement_timestamp()
     WHERE tenant_id = $1 AND id = $2 AND version = $3 AND deleted_at IS NULL
     RETURNING ${ORDER_COLUMNS}`,
    [transaction.tenantId, read.id, read.version, ...columnsOf(next), next.status],
  );
  const [order] = await update.catch((error: unknown) => {
    // Another order took the reference after we had looked: look again.
    throw violatesUnique(error, 'orders_external_ref_key') ? new LostRaceError(error) : error;
  });
  return order ?? stale(read);
}

/** Notes the payment that lives, or that none does. Not a change that clients see: the version stays. */
export async function setLivePayment(transaction: Transaction, id: string, paymentId: string | null): Promise<void> {
  await transaction.query(
    `UPDATE orders SET live_payment_id = $3, had_payment = true WHERE tenant_id = $1 AND id = $2`,
    [transaction.tenantId, id, paymentId],
  );
}

/** Assigns the status of an order whose row is held; one that has it already does not change. */
export async function assignOrderStatus(transaction: Transaction, id: string, status: OrderStatus): Promise<void> {
  await transaction.query(
    `UPDATE orders SET status = $3, version = version + 1, updated_at = statement_timestamp()
     WHERE tenant_id = $1 AND id = $2 AND status <> $3`,
    [transaction.tenantId, id, status],
  );
}

/** Ends an order: its row remains, one version on, so that its id stays spent. Fenced like {@link updateOrder}. */
export async function deleteOrder(transaction: Transaction, read: Order): Promise<Order> {
  const [order] = await transaction.query<Order>(
    `UPDATE orders SET deleted_at = statement_timestamp(), updated_at = statement_timestamp(), version = version + 1
     WHERE tenant_id = $1 AND id = $2 AND version = $3 AND deleted_at IS NULL
     RETURNING ${ORDER_COLUMNS}`,
    [transaction.tenantId, read.id, read.version],
  );
  return order ?? stale(read);
}

export interface OrderFilter {
  readonly status?: OrderStatus | undefined;
  readonly externalRef?: string | undefined;
}

export type ListedOrder = Order & { readonly position: string };

/** Living orders behind `after`, oldest first. */
export async function listOrders(
  manager: EntityManager,
  tenantId: string,
  { status, externalRef }: OrderFilter,
  after: TimePosition | undefined,
  limit: number,
): Promise<ListedOrder[]> {
  return manager.query<ListedOrder[]>(
    `SELECT ${ORDER_COLUMNS}, (extract(epoch FROM created_at) * 1000000)::bigint AS position
     FROM orders
     WHERE tenant_id = $1 AND deleted_at IS NULL
       AND ($2::text IS NULL OR status = $2) AND ($3::text IS NULL OR external_ref = $3)
       AND ($4::bigint IS NULL
         OR (created_at, id) > (timestamptz 'epoch' + $4::bigint * interval '1 microsecond', $5::uuid))
     ORDER BY created_at, id LIMIT $6`,
    [tenantId, status, externalRef, after?.createdAt, after?.id, limit],
  );
}

/** The columns of what clients write, in the order of the statements above. */
function columnsOf({ externalRef, currency, items, totalAmount, metadata, ...forgotten }: OrderContent): unknown[] {
  // Does not compile when a member of an order's content is written by no statement: it would be lost without a word.
  forgotten satisfies Record<string, never>;
  return [externalRef, currency, JSON.stringify(items), totalAmount, JSON.stringify(metadata)];
}

function stale({ id, version }: Order): never {
  throw new Error(`Order ${id} is not at version ${version} any more`);
}
