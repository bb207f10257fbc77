import { MIGRATIONS } from '../migrations/index.js';
import { migrate } from '../src/database/migrator.js';
import { PROVIDER_TIMEOUT_MS, SENDER, type Side } from './side.js';

/** The service as it is built. */
export const SERVICE: Side = {
  name: 'service',
  script: 'src/main.js',
  prepare: (databaseUrl) => migrate(databaseUrl, MIGRATIONS),
  env: ({ databaseUrl, providerUrl, webhookSecret, mailUrl }) => ({
    DATABASE_URL: databaseUrl,
    SEED_DEMO_TENANTS: 'true',
    STRIPE_SECRET_KEY: 'sk_test_service',
    STRIPE_API_BASE: providerUrl,
    STRIPE_WEBHOOK_SECRET: webhookSecret,
    BANK_API_BASE: `${providerUrl}/bank`,
    SMTP_URL: `${mailUrl}?from=${SENDER}`,
    PROVIDER_TIMEOUT: `${PROVIDER_TIMEOUT_MS}ms`,
    // On a busy machine, too, the second click is answered with the outcome of the first, and the client's own retry finds
    // the charge before the reconciliation does.
    IDEMPOTENCY_WAIT: '10s',
    RECONCILIATION_INTERVAL: '10m',
  }),
  counts: `
    SELECT (SELECT count(*) FROM orders)::int AS orders, (SELECT count(*) FROM payments)::int AS payments,
           (SELECT count(*) FROM money_movements)::int AS bookings, (SELECT count(*) FROM outbox)::int AS events`,
  pending: `
    SELECT ((SELECT count(*) FROM outbox WHERE published_at IS NULL)
          + (SELECT count(*) FROM notifications WHERE status = 'due'))::int AS pending`,
};
