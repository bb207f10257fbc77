import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { readFile } from 'node:fs/promises';
import { ServiceProcess } from '../support/service-process.js';
import { TestDatabase } from '../support/test-database.js';
import { SandboxClient } from './paying.js';

let database: TestDatabase;
let service: ServiceProcess;
beforeAll(async () => {
  database = await TestDatabase.create();
  service = await ServiceProcess.start({
    DATABASE_URL: database.url,
    SEED_DEMO_TENANTS: 'true',
    // Unset: the service brings its own.
    ...{ STRIPE_API_BASE: '', BANK_API_BASE: '', SANDBOX_PORT: '0' },
  });
});
afterAll(async () => {
  await service.stop();
  await database.drop();
});

/** The bodies that the README's walk sends, so that it cannot show what does not work. */
async function walkOf(readme: string): Promise<{ fault: object; card: object }> {
  const text = await readFile(readme, 'utf8');
  const [, fault] = /\$SANDBOX\/faults .*-d '(\{.*\})'/.exec(text)!;
  const [, card] = /^CARD='(\{.*\})'$/m.exec(text)!;
  return { fault: JSON.parse(fault!) as object, card: JSON.parse(card!) as object };
}

it("the README's walk: a lost reply is 503, the same request again 201, and there is one effect", async () => {
  const { fault, card } = await walkOf('README.md');
  const sandbox = new SandboxClient(/sandbox on (http:\S+)/.exec(service.output)![1]!);
  const headers = { Authorization: 'Bearer sk_demo_acme', 'Idempotency-Key': 'walk' };
  const body = { currency: 'EUR', externalRef: 'web-10042', items: [{ sku: 'tea', quantity: 2, unitAmount: 450 }] };
  await service.request('POST', '/v1/orders', { headers, body });
  const [order] = (await service.request('GET', '/v1/orders?externalRef=web-10042', { headers })).json.data;
  await sandbox.send('POST', '/sandbox/faults', fault);
  const pay = () => service.request('POST', `/v1/orders/${order.id}/payments`, { headers, body: card });

  const lost = await pay();
  expect([lost.status, lost.json.code, lost.headers['retry-after']]).toEqual([503, 'payment-outcome-unknown', '2']);
  const found = await pay();
  expect([found.status, found.json.status, found.json.amount]).toEqual([201, 'succeeded', 900]);
  const replayed = await pay();
  expect([replayed.text, replayed.headers['idempotent-replayed']]).toEqual([found.text, 'true']);
  expect(await sandbox.effects()).toHaveLength(1);
  const events = (await service.request('GET', '/v1/events', { headers })).json.data as { type: string }[];
  expect(events.map(({ type }) => type)).toEqual(['order.created', 'payment.succeeded']);
});
