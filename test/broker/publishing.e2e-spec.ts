import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { EventTransport } from '../../src/messaging/transports/event-transport.js';
import { createOrder } from '../orders/order-effects.js';
import { ACME, TestApp } from '../support/test-app.js';
import type { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { describeWithBroker, QUICK, TestBroker } from './broker.js';

let service: TestApp;
let broker: TestBroker;
let proxy: TcpProxy;
let proxyUrl: string;

beforeEach(async () => {
  broker = await TestBroker.open();
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
const connected = (to = service) => waitFor(() => to.app.get(EventTransport).isReady, { description: 'the broker' });
const refused = () =>
  waitFor(() => service.database.count('outbox', 'dead_reason IS NOT NULL'), { description: 'an event to be refused' });

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
    await connected();
    const order = await createOrder(service);
    expect((await broker.next('unrouted')).properties.correlationId).toBe(order.id);
    await delivered(1);
  });
});

describeWithBroker('an event is not marked as published (K21)', () => {
  it('when no queue takes it, though the broker acknowledges it', async () => {
    await connected();
    await broker.channel.deleteQueue(broker.name('unrouted'));
    const order = await createOrder(service);
    await refused();
    const [row] = await service.database.query<{ id: string }>('SELECT * FROM outbox');
    expect(row).toMatchObject({ published_at: null, dead_reason: 'No queue takes the message' });

    await broker.watch();
    await service.database.query('UPDATE outbox SET available_at = NULL, dead_at = NULL');
    const { properties } = await broker.next('watch');
    expect(properties).toMatchObject({ messageId: row!.id, correlationId: order.id });
    await delivered(1);
  });

  it('when the broker refuses it: exactly that one of three is sent again', async () => {
    await connected();
    await broker.channel.assertQueue(broker.name('watch'), {
      durable: true,
      arguments: { 'x-max-length': 2, 'x-overflow': 'reject-publish' },
    });
    await broker.channel.bindQueue(broker.name('watch'), broker.name('events'), '#');
    await Promise.all([createOrder(service), createOrder(service), createOrder(service)]);
    await refused();
    await delivered(2);
    const [nacked] = await service.database.query<{ id: string }>('SELECT id FROM outbox WHERE published_at IS NULL');
    const first = await broker.drain('watch');
    await service.database.query('UPDATE outbox SET available_at = NULL, dead_at = NULL WHERE published_at IS NULL');
    await delivered(3);
    const second = await broker.drain('watch');

    expect(new Set(first.map(({ properties }) => properties.messageId as string)).size).toBe(2);
    expect(second.map(({ properties }) => properties.messageId as string)).toEqual([nacked!.id]);
  });

  it('when the broker vanishes without closing: the publication has a deadline, and no request waits for it', async () => {
    await connected();
    await broker.watch();
    proxy.freeze();
    const begun = performance.now();
    const order = await createOrder(service);
    expect(performance.now() - begun).toBeLessThan(1_000);
    await waitFor(async () => (await service.database.count('outbox', 'lease_until IS NOT NULL')) === 1);
    await waitFor(() => !service.app.get(EventTransport).isReady, { description: 'the connection to be given up' });
    await waitFor(async () => (await service.database.count('outbox', 'lease_until IS NULL')) === 1);
    expect(await service.database.query('SELECT published_at, attempts_finished, dead_reason FROM outbox')).toEqual([
      { published_at: null, attempts_finished: 0, dead_reason: null },
    ]);

    proxy.thaw();
    const { properties } = await broker.next('watch');
    expect(properties.correlationId).toBe(order.id);
    await delivered(1);
    expect(await broker.drain('watch')).toHaveLength(0);
  });
});

describeWithBroker('a service whose broker is not there', () => {
  it('starts, takes orders, stops, and sends what happened once the broker answers', async () => {
    await broker.watch();
    proxy.freeze();
    const begun = performance.now();
    const other = await TestApp.start(broker.environment(proxyUrl), { database: service.database });
    const order = await createOrder(other);
    await other.app.close();
    expect(performance.now() - begun).toBeLessThan(4_000);
    proxy.cut();
    proxy.thaw();
    expect((await broker.next('watch')).properties.correlationId).toBe(order.id);
  });

  it('connects again by itself when connections are cut, and repeats nothing that was confirmed', async () => {
    await broker.watch();
    const orders: string[] = [];
    for (let round = 0; round < 3; round++) {
      await connected();
      proxy.cut();
      orders.push((await createOrder(service)).id);
      await delivered(orders.length);
    }
    const seen = await broker.drain('watch');
    const ids = new Set(seen.map(({ properties }) => properties.messageId as string));
    expect([...new Set(seen.map(({ properties }) => properties.correlationId as string))]).toEqual(orders);
    expect(ids.size).toBe(3);
  });
});
