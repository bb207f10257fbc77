import { setTimeout as sleep } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { DatabaseUnavailableError } from '../../src/database/database.errors.js';
import type { Transaction } from '../../src/database/transaction.js';
import type { CloudEvent } from '../../src/messaging/cloud-event.js';
import { Consumes } from '../../src/messaging/consumes.decorator.js';
import { EventTransport } from '../../src/messaging/transports/event-transport.js';
import { createOrder } from '../orders/order-effects.js';
import { Gate } from '../database/gate.js';
import { TestApp } from '../support/test-app.js';
import type { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { describeWithBroker, QUICK, TestBroker } from './broker.js';

/** What the consumer of the test does with an event, beside counting it. */
let work: (event: CloudEvent, transaction: Transaction) => Promise<void>;
let calls: CloudEvent[];

@Injectable()
class CountingConsumer {
  @Consumes('order.created', { consumer: 'count' })
  async onCreated(event: CloudEvent, transaction: Transaction): Promise<void> {
    calls.push(event);
    await transaction.query('INSERT INTO effects (tenant_id, event_id) VALUES ($1, $2)', [
      transaction.tenantId,
      event.id,
    ]);
    await work(event, transaction);
  }
}

let service: TestApp;
let broker: TestBroker;
let proxy: TcpProxy;

beforeEach(async () => {
  calls = [];
  work = async () => undefined;
  broker = await TestBroker.open(['count']);
  const { proxy: started, proxyUrl } = await TestBroker.proxy();
  proxy = started;
  service = await TestApp.start(broker.environment(proxyUrl), {
    providers: [CountingConsumer],
    messaging: { ...QUICK, longestPause: 100 },
  });
  await service.database.query('CREATE TABLE effects (tenant_id uuid NOT NULL, event_id uuid NOT NULL)');
});
afterEach(async () => {
  await service.stop();
  await proxy.stop();
  await broker.close();
});

const effects = () => service.database.count('effects');
const applied = (events: number) =>
  waitFor(async () => (await effects()) === events, { description: `${events} events to be applied` });
const remembered = () => service.database.count('processed_messages');
/** What the broker still has for the consumer, and nobody works on. */
const idleButFor = (messages: number) =>
  waitFor(async () => (await broker.depth('count')) === messages, { description: `${messages} messages to wait` });

describeWithBroker('a consumer behind RabbitMQ', () => {
  it('gets each event, and its effect happens once', async () => {
    const orders = [await createOrder(service), await createOrder(service), await createOrder(service)];
    await applied(3);
    expect(calls.map(({ subject }) => subject).sort()).toEqual(orders.map(({ id }) => id).sort());
    expect(await remembered()).toBe(3);
    await idleButFor(0);
  });

  it('that commits and is gone before it has acknowledged gets the message again and changes nothing (K22)', async () => {
    work = async (_, transaction) => transaction.onCommitted(() => proxy.cut());
    const order = await createOrder(service);
    await applied(1);
    work = async () => undefined;
    await waitFor(() => proxy.connections === 2, { description: 'the service to be back' });
    await createOrder(service);
    await applied(2);

    expect(calls.filter(({ subject }) => subject === order.id)).toHaveLength(1); // the inbox knew the repeat
    expect(await remembered()).toBe(2);
    await service.app.close(); // what is not acknowledged goes back to its queue
    expect(await broker.depth('count')).toBe(0);
  });

  it('that fails after its effect leaves nothing behind, and is asked again later (K22)', async () => {
    const seen: unknown[] = [];
    work = async () => {
      seen.push([await effects(), await remembered()]);
      if (seen.length < 3) throw new Error('not yet');
    };
    await createOrder(service);
    await applied(1);

    expect(seen).toEqual([
      [0, 0],
      [0, 0],
      [0, 0],
    ]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(1);
    expect(await broker.depth('dead')).toBe(0);
  });

  it('that always throws has so many attempts; then the message is dead, with the reason, and others flow (K22)', async () => {
    work = async ({ data }) => {
      if ((data as { externalRef: string | null }).externalRef === 'poison') throw new Error('always');
    };
    const { id: poison } = await createOrder(service, { externalRef: 'poison' });
    const orders = [await createOrder(service), await createOrder(service)];
    await applied(2);
    const { properties, content } = await broker.next('dead');

    expect(properties.headers).toMatchObject({ consumer: 'count', reason: 'Error: always', attempts: 3 });
    expect(properties).toMatchObject({ correlationId: poison, contentType: 'application/cloudevents+json' });
    expect(JSON.parse(content.toString())).toMatchObject({ id: properties.messageId, subject: poison });
    expect(calls.filter(({ subject }) => subject === poison)).toHaveLength(3);
    expect(calls.filter(({ subject }) => subject === orders[0]!.id)).toHaveLength(1);
    expect(await remembered()).toBe(2);
    await idleButFor(0);
  });

  it.each([
    ['is not JSON', 'not JSON', 'MalformedMessageError: It is not JSON', true],
    ['is no CloudEvent', '{"id":"1"}', 'MalformedMessageError: It is no CloudEvent 1.0 with data', true],
    ['names no tenant', '{}', 'MalformedMessageError: It names no tenant', false],
  ])('puts a message aside at once that %s (K22)', async (_, body, reason, hasTenant) => {
    await createOrder(service);
    await applied(1);
    const [tenant] = await service.database.query<{ id: string }>('SELECT id FROM tenants LIMIT 1');
    broker.channel.publish('', broker.name('count'), Buffer.from(body), {
      headers: hasTenant ? { 'tenant-id': tenant!.id } : {},
    });
    const { properties, content } = await broker.next('dead');
    expect(properties.headers).toMatchObject({ consumer: 'count', reason, attempts: 1 });
    expect(content.toString()).toBe(body);
    await createOrder(service);
    await applied(2);
  });

  it('keeps its attempts while the database is away', async () => {
    let failures = 0;
    work = async () => {
      if (++failures <= 5) throw new DatabaseUnavailableError(undefined);
    };
    await createOrder(service);
    await applied(1);
    expect(failures).toBe(6); // three attempts would have been all, had they counted
    expect(await broker.depth('dead')).toBe(0);
  });

  it('is let finish when the service stops; what has not begun comes to another', async () => {
    const gate = new Gate();
    work = () => gate.opened;
    for (let order = 1; order <= 6; order++) await createOrder(service);
    await waitFor(() => calls.length === 4, { description: 'the consumer to have its hands full' });
    await idleButFor(2);
    const stop = jest.spyOn(service.app.get(EventTransport), 'stop');
    const closed = service.app.close();
    await waitFor(() => stop.mock.calls.length > 0, { description: 'the service to take no more' });
    await sleep(500); // time enough to be gone, for one who does not wait
    expect(proxy.connections).toBe(2);
    gate.open();
    await closed;
    expect(await effects()).toBe(4);
    expect((await broker.drain('count')).map(({ fields }) => fields.redelivered)).toEqual([false, false]);
  });
});
