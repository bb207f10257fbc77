import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { createOrder } from '../orders/order-effects.js';
import { ACME, TestApp } from '../support/test-app.js';
import type { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { describeWithBroker, QUICK, TestBroker } from './broker.js';

let service: TestApp;
let broker: TestBroker;
let proxy: TcpProxy;

beforeEach(async () => {
  broker = await TestBroker.open();
  let proxyUrl: string;
  ({ proxy, proxyUrl } = await TestBroker.proxy());
  service = await TestApp.start(broker.environment(proxyUrl), { messaging: { ...QUICK, longestPause: 100 } });
});
afterEach(async () => {
  await service.stop();
  await proxy.stop();
  await broker.close();
});

const published = () => service.database.count('outbox', 'published_at IS NOT NULL');
const delivered = (events: number) =>
  waitFor(async () => (await published()) === events, { description: `${events} events to be published` });
const refusals = () => service.database.count('outbox', 'attempts_finished > 0 AND published_at IS NULL');

describeWithBroker('an event on RabbitMQ', () => {
  it('is a persistent CloudEvent under its own id, routed by its type', async () => {
    await broker.watch();
    const order = await createOrder(service);
    const { fields, properties, content } = await broker.next('watch');

    expect(fields).toMatchObject({ exchange: broker.name('events'), routingKey: 'order.created' });
    const [row] = await service.database.query<{ id: string; tenant_id: string }>('SELECT id, tenant_id FROM outbox');
    expect(properties).toMatchObject({
      messageId: row!.id,
      correlationId: order.id,
      type: 'order.created',
      contentType: 'application/cloudevents+json',
      deliveryMode: 2,
      headers: { 'tenant-id': row!.tenant_id },
    });
    const { body: log } = await service.as(ACME).get('/v1/events');
    expect(JSON.parse(content.toString())).toEqual(log.data[0]);
    await delivered(1);
  });

  it('of a type that nobody has asked for lies in the queue for those', async () => {
    const order = await createOrder(service);
    expect((await broker.next('unrouted')).properties.correlationId).toBe(order.id);
    await delivered(1);
  });
});
