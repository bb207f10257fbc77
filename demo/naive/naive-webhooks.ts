import express, { Router } from 'express';
import type { Transporter } from 'nodemailer';
import type pg from 'pg';
import type Stripe from 'stripe';

export interface Receipts {
  readonly mails: Transporter;
  readonly from: string;
}

export function naiveWebhooks(database: pg.Pool, stripe: Stripe, secret: string, { mails, from }: Receipts): Router {
  const router = Router();

  /** Does what a message says, as often as it comes. */
  router.post('/v1/webhooks/stripe', express.raw({ type: () => true }), async (request, response) => {
    const signature = request.header('stripe-signature') ?? '';
    const event = stripe.webhooks.constructEvent(request.body as Buffer, signature, secret);
    if (event.type === 'payment_intent.succeeded') {
      const { id, amount, metadata } = event.data.object;
      await database.query('INSERT INTO bookings (provider_ref, amount) VALUES ($1, $2)', [id, amount]);
      const to = metadata.receiptEmail;
      if (to) await mails.sendMail({ from, to, subject: 'Your receipt', text: `Paid: ${amount}` });
    }
    response.status(204).end();
  });

  return router;
}
