import { prepareNaiveTables } from './naive/naive-tables.js';
import { PROVIDER_TIMEOUT_MS, SENDER, type Side } from './side.js';

/** The same API as one writes it without thinking of repeats. It lives in this demonstration alone. */
export const NAIVE: Side = {
  name: 'naive',
  script: 'demo/naive/naive-server.js',
  prepare: prepareNaiveTables,
  env: ({ databaseUrl, providerUrl, webhookSecret, mailUrl }) => ({
    DATABASE_URL: databaseUrl,
    STRIPE_API_BASE: providerUrl,
    STRIPE_WEBHOOK_SECRET: webhookSecret,
    SMTP_URL: mailUrl,
    SENDER,
    PROVIDER_TIMEOUT_MS: String(PROVIDER_TIMEOUT_MS),
  }),
  counts: `
    SELECT (SELECT count(*) FROM orders)::int AS orders, (SELECT count(*) FROM payments)::int AS payments,
           (SELECT count(*) FROM bookings)::int AS bookings, (SELECT count(*) FROM events)::int AS events`,
  pending: 'SELECT 0 AS pending',
};
