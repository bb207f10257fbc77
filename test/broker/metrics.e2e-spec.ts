import { Injectable } from '@nestjs/common';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { Consumes } from '../../src/messaging/consumes.decorator.js';
import { createOrder } from '../orders/order-effects.js';
import { scrape } from '../operations/metrics/scrape.js';
import { TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';
import { describeWithBroker, QUICK, TestBroker } from './broker.js';

@Injectable()
class RefusingConsumer {
  @Consumes('order.created', { consumer: 'refuse' })
  async onCreated(): Promise<void> {
    throw new Error('refused by the test');
  }
}

let service: TestApp;
let broker: TestBroker;

beforeEach(async () => {
  broker = await TestBroker.open(['refuse']);
  service = await TestApp.start(broker.environment(), {
    providers: [RefusingConsumer],
    messaging: { ...QUICK, longestPause: 100 },
  });
});
afterEach(async () => {
  await service.stop();
  await broker.close();
});

const figures = () => scrape(service.as());

describeWithBroker('orders_messages_dead_total', () => {
  it('counts a message that its consumer refused for the last time', async () => {
    const dead = 'orders_messages_dead_total{consumer="refuse"}';
    expect((await figures())[dead]).toBe(0);
    await createOrder(service);
    await waitFor(async () => (await figures())[dead] === 1, { description: 'the message to be put aside' });
    expect(await figures()).toMatchObject({
      'orders_messages_total{consumer="refuse",outcome="failed"}': QUICK.attempts,
      'orders_event_deliveries_total{outcome="published"}': 1,
      orders_events_dead_total: 0,
    });
    expect(await service.database.count('processed_messages')).toBe(0);
  });
});
