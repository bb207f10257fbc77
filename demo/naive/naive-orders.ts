import { Router } from 'express';
import type pg from 'pg';
import type { NewOrder, OrderChanges } from '../../src/client/index.js';

/** As a row has it. */
export interface NaiveOrder {
  readonly id: string;
  readonly status: string;
  readonly currency: string;
  readonly items: readonly { readonly sku: string; readonly quantity: number; readonly unitAmount: number }[];
  readonly version: number;
}

const COLUMNS = 'id, status, currency, items, version';

export function naiveOrders(database: pg.Pool): Router {
  const router = Router();

  /** Inserts, publishes, answers: whoever sends it twice has two orders. */
  router.post('/v1/orders', async (request, response) => {
    const { currency, items } = request.body as NewOrder;
    const { rows } = await database.query<NaiveOrder>(
      `INSERT INTO orders (currency, items) VALUES ($1, $2) RETURNING ${COLUMNS}`,
      [currency, JSON.stringify(items)],
    );
    await database.query(`INSERT INTO events (type, subject) VALUES ('order.created', $1)`, [rows[0]!.id]);
    response.status(201).json(rows[0]);
  });

  router.get('/v1/orders/:id', async (request, response) => {
    const { rows } = await database.query<NaiveOrder>(`SELECT ${COLUMNS} FROM orders WHERE id = $1`, [
      request.params.id,
    ]);
    response.json(rows[0]);
  });

  /** The last write wins, whatever its writer has seen. */
  router.patch('/v1/orders/:id', async (request, response) => {
    const { items } = request.body as OrderChanges;
    const { rows } = await database.query<NaiveOrder>(
      `UPDATE orders SET items = $2, version = version + 1 WHERE id = $1 RETURNING ${COLUMNS}`,
      [request.params.id, JSON.stringify(items)],
    );
    await database.query(`INSERT INTO events (type, subject) VALUES ('order.updated', $1)`, [request.params.id]);
    response.json(rows[0]);
  });

  return router;
}
