import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ServiceProcess } from '../support/service-process.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { Checkout } from './checkout.js';
import { Guide } from './guide.js';

let guide: Guide;
let checkout: Checkout;
let database: TestDatabase;
let environment: Record<string, string>;
beforeAll(async () => {
  guide = await Guide.read('docs/add-a-consumer.md');
  checkout = await Checkout.ofProject();
  await checkout.follow(guide);
  await checkout.build('test/loyalty');
  database = await TestDatabase.create();
  environment = {
    ...{ DATABASE_URL: database.url, SEED_DEMO_TENANTS: 'true' },
    ...{ STRIPE_API_BASE: '', BANK_API_BASE: '', SANDBOX_PORT: '0' }, // unset: the service brings its own
  };
  await checkout.sh('npm run migrate', environment);
});
afterAll(async () => {
  await ServiceProcess.killAll();
  await database?.drop();
  await checkout?.remove();
});

const start = () => ServiceProcess.start(environment, { entry: checkout.path('dist/src/main.js') });
const accounts = () => database.query('SELECT email, points::int FROM loyalty_accounts');
const notes = () => database.count('processed_messages', `consumer = 'loyalty.points'`);
const delivered = () =>
  waitFor(async () => (await database.count('outbox', 'published_at IS NULL')) === 0, {
    description: 'every event to be delivered',
  });

async function pay(service: ServiceProcess, key: string): Promise<void> {
  const headers = { Authorization: 'Bearer sk_demo_acme', 'Idempotency-Key': key };
  const order = { currency: 'EUR', items: [{ sku: 'tea', unitAmount: 900 }] };
  const { json } = await service.request('POST', '/v1/orders', { headers, body: order });
  const card = { method: 'card', paymentMethod: 'pm_card_visa', receiptEmail: 'ada@shop.example' };
  const paid = await service.request('POST', `/v1/orders/${json.id}/payments`, { headers, body: card });
  expect([paid.status, paid.json.status]).toEqual([201, 'succeeded']);
}

describe('a consumer made by following docs/add-a-consumer.md to the letter', () => {
  it('applies a payment once, however often and by whomever its event is delivered', async () => {
    const services = [await start(), await start()];
    await pay(services[0]!, 'key-1');
    await pay(services[0]!, 'key-2');
    await delivered();
    expect(await accounts()).toEqual([{ email: 'ada@shop.example', points: 18 }]);

    for (let again = 0; again < 5; again++) {
      await database.query('UPDATE outbox SET published_at = NULL'); // as if the relay had died before it noted it
      await delivered();
    }
    expect(await database.count('outbox', `type = 'payment.succeeded' AND attempts_finished = 6`)).toBe(2);
    expect(await accounts()).toEqual([{ email: 'ada@shop.example', points: 18 }]);
    expect(await notes()).toBe(2);
    await Promise.all(services.map((service) => service.stop()));
  });

  it('passes the test that the page has for it', async () => {
    for (const { script } of guide.steps) {
      await checkout.sh(script, { DATABASE_URL: process.env.TEST_SERVER_URL! });
    }
  });
});
