import type { AddressInfo } from 'node:net';
import express, { type ErrorRequestHandler } from 'express';
import { createTransport } from 'nodemailer';
import pg from 'pg';
import Stripe from 'stripe';
import { naiveOrders } from './naive-orders.js';
import { naivePayments } from './naive-payments.js';
import { naiveWebhooks } from './naive-webhooks.js';

const { DATABASE_URL, STRIPE_API_BASE, STRIPE_WEBHOOK_SECRET, SMTP_URL, SENDER, PROVIDER_TIMEOUT_MS, HOST, PORT } =
  process.env as Record<string, string>;

const database = new pg.Pool({ connectionString: DATABASE_URL });
database.on('error', (error) => console.error(error));
const { hostname, port } = new URL(STRIPE_API_BASE!);
const stripe = new Stripe('sk_test_naive', {
  protocol: 'http',
  host: hostname,
  port,
  timeout: Number(PROVIDER_TIMEOUT_MS),
});
const receipts = { mails: createTransport(SMTP_URL), from: SENDER! };

const failed: ErrorRequestHandler = (error: Error, _request, response, _next) => {
  console.error(error);
  response.status(500).json({ message: error.message });
};

const server = express()
  .use(naiveWebhooks(database, stripe, STRIPE_WEBHOOK_SECRET!, receipts))
  .use(express.json())
  .use(naiveOrders(database))
  .use(naivePayments(database, stripe))
  .use(failed)
  .listen(Number(PORT), HOST!, () => {
    console.log(`The naive server is listening on http://${HOST}:${(server.address() as AddressInfo).port} now`);
  });
