import { Router } from 'express';
import type pg from 'pg';
import type Stripe from 'stripe';
import type { NewPayment } from '../../src/client/index.js';
import type { NaiveOrder } from './naive-orders.js';

export function naivePayments(database: pg.Pool, stripe: Stripe): Router {
  const router = Router();

  /**
   * Looks whether the order is paid, charges, writes it down. Two that look at once both see that it is not; and when the
   * call fails, nothing is left that would say that there was one.
   */
  router.post('/v1/orders/:id/payments', async (request, response) => {
    const { paymentMethod, receiptEmail } = request.body as NewPayment;
    const orderId = request.params.id;
    const { rows: orders } = await database.query<NaiveOrder>('SELECT * FROM orders WHERE id = $1', [orderId]);
    const order = orders[0]!;
    if (order.status === 'paid') {
      response.status(409).json({ message: 'The order is paid already.' });
      return;
    }

    const amount = order.items.reduce((sum, { quantity, unitAmount }) => sum + quantity * unitAmount, 0);
    // Without a key of ours: the SDK makes one for this call, and another one for the next.
    const intent = await stripe.paymentIntents.create({
      amount,
      currency: order.currency.toLowerCase(),
      payment_method: paymentMethod,
      confirm: true,
      metadata: { orderId, ...(receiptEmail && { receiptEmail }) },
    });

    const { rows: payments } = await database.query<{ id: string }>(
      `INSERT INTO payments (order_id, amount, currency, provider_ref) VALUES ($1, $2, $3, $4)
       RETURNING id, order_id AS "orderId", amount::int, currency, provider_ref AS "providerRef"`,
      [orderId, amount, order.currency, intent.id],
    );
    await database.query(`UPDATE orders SET status = 'paid' WHERE id = $1`, [orderId]);
    await database.query(`INSERT INTO events (type, subject) VALUES ('payment.succeeded', $1)`, [payments[0]!.id]);
    response.status(201).json({ ...payments[0], status: 'succeeded' });
  });

  return router;
}
