import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import type { OrderView } from '../../src/orders/dto/order-view.js';
import { createOrder } from '../orders/order-effects.js';
import { TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';
import { controlBroker, describeWithBrokerToStop, QUICK, TestBroker } from './broker.js';

const STOPPED_FOR = process.env.TEST_FULL === '1' ? 30_000 : 4_000;
const CLIENTS = 4;

/** How long requests took, by what the broker was doing. */
type Phase = 'up' | 'stopped' | 'changing';

let service: TestApp;
let broker: TestBroker;
let phase: Phase;
let times: Record<Phase, number[]>;

beforeEach(async () => {
  broker = await TestBroker.open();
  await broker.watch();
  service = await TestApp.start(broker.environment(), { messaging: { ...QUICK, attempts: 3 } });
  phase = 'up';
  times = { up: [], stopped: [], changing: [] };
});
afterEach(async () => {
  await controlBroker('start_app');
  await service.stop();
  await broker.close();
});

/** Makes orders and changes each a few times, one request after the other. @returns how many events that makes */
async function client(ended: () => boolean): Promise<number> {
  let events = 0;
  while (!ended()) {
    const { id } = await timed(() => createOrder(service));
    for (let version = 1; version <= 3; version++) await timed(() => change(id, version));
    events += 4;
    await sleep(10);
  }
  return events;
}

async function change(id: string, version: number): Promise<OrderView> {
  const items = [{ sku: 'tea', quantity: version + 10, unitAmount: 100 }];
  const answer = await service.as().patch(`/v1/orders/${id}`, { items }, { 'If-Match': `"${version}"` });
  if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`);
  return answer.body as OrderView;
}

async function timed<T>(request: () => Promise<T>): Promise<T> {
  const begun = performance.now();
  const now = phase;
  const result = await request();
  times[now === phase ? now : 'changing'].push(performance.now() - begun);
  return result;
}

async function control(command: 'stop_app' | 'start_app', then: Phase): Promise<void> {
  phase = 'changing'; // the command itself takes a core
  await controlBroker(command);
  phase = then;
}

const quantile = (values: readonly number[], share: number) =>
  [...values].sort((one, other) => one - other)[Math.floor(values.length * share)]!;

describeWithBrokerToStop(`a broker that is stopped for ${STOPPED_FOR / 1_000} s under load`, () => {
  it('fails and slows no request; all is delivered afterwards, in order', async () => {
    let ended = false;
    const clients = Array.from({ length: CLIENTS }, () => client(() => ended));
    await sleep(STOPPED_FOR / 2);
    await control('stop_app', 'stopped');
    await sleep(STOPPED_FOR);
    await control('start_app', 'up');
    await sleep(1_000);
    ended = true;
    const events = (await Promise.all(clients)).reduce((sum, count) => sum + count, 0);

    await waitFor(async () => (await service.database.count('outbox', 'published_at IS NULL')) === 0, {
      timeoutMs: 120_000,
      description: 'everything to be published',
    });
    const again = await broker.reopen();
    const seen = (await again.drain('watch')).map(({ content }) => JSON.parse(content.toString()));
    const firsts = new Map(seen.map((event) => [event.id, event]));
    expect(firsts.size).toBe(events);
    const versions = new Map<string, number>();
    for (const { subject, aggregateversion } of firsts.values()) {
      expect(Number(aggregateversion)).toBe((versions.get(subject) ?? 0) + 1);
      versions.set(subject, Number(aggregateversion));
    }
    expect(await service.database.count('outbox', 'attempts_finished > 1 OR dead_at IS NOT NULL')).toBe(0);

    const [up, stopped] = [times.up, times.stopped].map((taken) => ({
      requests: taken.length,
      median: quantile(taken, 0.5),
      p99: quantile(taken, 0.99),
    }));
    console.log(JSON.stringify({ up, stopped, repeats: seen.length - events }));
    expect(stopped!.requests).toBeGreaterThan(100);
    expect(stopped!.median).toBeLessThan(up!.median * 1.5 + 2);
    expect(stopped!.p99).toBeLessThan(up!.p99 * 2 + 50);
  }, 300_000);
});

describeWithBrokerToStop('a broker that is short of memory', () => {
  it('blocks its publishers: events wait in the outbox, and no attempt is counted', async () => {
    await createOrder(service);
    await broker.next('watch');
    await controlBroker('set_vm_memory_high_watermark', '0.000001');
    try {
      const order = await createOrder(service); // the alarm stops a connection at its next publication
      await sleep(500);
      await createOrder(service);
      expect(await service.database.count('outbox', 'published_at IS NULL')).toBeGreaterThanOrEqual(1);
      expect(await service.database.count('outbox', 'dead_reason IS NOT NULL')).toBe(0);
      expect(order.version).toBe(1);
    } finally {
      await controlBroker('set_vm_memory_high_watermark', '0.4');
    }
    await waitFor(async () => (await service.database.count('outbox', 'published_at IS NULL')) === 0, {
      timeoutMs: 30_000,
      description: 'everything to be published',
    });
  });
});
