import { Injectable } from '@nestjs/common';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Transaction } from '../../src/database/transaction.js';
import type { CloudEvent } from '../../src/messaging/cloud-event.js';
import { Consumes } from '../../src/messaging/consumes.decorator.js';
import { DeadEvents } from '../../src/messaging/dead-events.js';
import { createOrder } from '../orders/order-effects.js';
import { TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';

/** What the consumer of the test does with an event, beside counting it. */
let work: (event: CloudEvent, transaction: Transaction) => Promise<void>;
/** Calls, in their order. */
let calls: CloudEvent[];

@Injectable()
class CountingConsumer {
  @Consumes('order.created', { consumer: 'test.count' })
  async onCreated(event: CloudEvent, transaction: Transaction): Promise<void> {
    await this.count(event, transaction);
  }

  @Consumes('order.updated', { consumer: 'test.count-updates' })
  async onUpdated(event: CloudEvent, transaction: Transaction): Promise<void> {
    await this.count(event, transaction);
  }

  private async count(event: CloudEvent, transaction: Transaction): Promise<void> {
    calls.push(event);
    await work(event, transaction);
    await transaction.query('INSERT INTO effects (tenant_id, event_id) VALUES ($1, $2)', [
      transaction.tenantId,
      event.id,
    ]);
  }
}

let service: TestApp;
beforeAll(async () => {
  service = await TestApp.start({}, { providers: [CountingConsumer], messaging: {} });
  await service.database.query('CREATE TABLE effects (tenant_id uuid NOT NULL, event_id uuid NOT NULL)');
});
afterAll(() => service.stop());
beforeEach(async () => {
  await service.database.clear();
  calls = [];
  work = async () => undefined;
});

const effects = () => service.database.count('effects');
const published = () => service.database.count('outbox', 'published_at IS NOT NULL');
const delivered = (events: number) =>
  waitFor(async () => (await published()) === events, { description: `${events} events to be published` });

describe('an event that is committed', () => {
  it('reaches its consumer, whose effect happens once', async () => {
    const order = await createOrder(service);
    await delivered(1);

    expect(await effects()).toBe(1);
    expect(calls).toMatchObject([{ type: 'order.created', subject: order.id, aggregateversion: '1', data: order }]);
  });

  it('comes again when it was not marked, with the same id, and changes nothing more (K22)', async () => {
    await createOrder(service);
    await delivered(1);
    await service.database.query('UPDATE outbox SET published_at = NULL');
    await createOrder(service); // nudges
    await delivered(2);

    expect(await effects()).toBe(2);
    expect(await service.database.count('processed_messages')).toBe(2);
    expect(calls).toHaveLength(2); // the inbox knew the repeat
  });

  it('whose consumer fails leaves nothing in the inbox and comes again (K22)', async () => {
    work = async () => {
      if (calls.length < 3) throw new Error('not yet');
    };
    await createOrder(service);
    await waitFor(async () => calls.length === 1, { description: 'the first attempt' });
    expect([await effects(), await service.database.count('processed_messages')]).toEqual([0, 0]);
    for (let attempt = 2; attempt <= 3; attempt++) {
      await waitFor(async () => (await service.database.count('outbox', 'available_at IS NOT NULL')) === 1);
      await service.database.query('UPDATE outbox SET available_at = NULL');
    }
    await delivered(1);

    expect(await effects()).toBe(1);
    expect(calls).toHaveLength(3);
  });

  it('that is refused every time is put aside with the reason; other aggregates go on, its own waits', async () => {
    const poison = await createOrder(service);
    await delivered(1);
    work = async ({ subject }) => {
      if (subject === poison.id) throw new Error('always');
    };
    const change = (items: unknown, version: number) =>
      service.as().patch(`/v1/orders/${poison.id}`, { items }, { 'If-Match': `"${version}"` });
    await change([{ sku: 'a', unitAmount: 1 }], 1);
    await change([{ sku: 'b', unitAmount: 1 }], 2);
    await service.database.query(
      'UPDATE outbox SET attempts_started = 9, attempts_finished = 9 WHERE published_at IS NULL',
    );
    await createOrder(service);
    const dead = service.app.get(DeadEvents);
    await waitFor(async () => (await dead.list()).length === 1, { description: 'the event to be dead' });
    await delivered(2);
    expect(await dead.list()).toMatchObject([
      { subject: poison.id, aggregateVersion: 2, attempts: 10, reason: expect.stringContaining('always') },
    ]);
    expect(await service.database.count('outbox', 'published_at IS NULL AND dead_at IS NULL')).toBe(1);

    const { id } = (await dead.list())[0]!;
    work = async () => undefined;
    await dead.decide(id, 'retry');
    await createOrder(service);
    await delivered(5);
    expect(calls.filter(({ subject }) => subject === poison.id).map((event) => event.aggregateversion)).toEqual(
      expect.arrayContaining(['1', '2', '3']),
    );
    expect(await effects()).toBe(5);
  });
});
