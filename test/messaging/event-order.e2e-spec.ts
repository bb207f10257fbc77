import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { CloudEvent } from '../../src/messaging/cloud-event.js';
import { createOrder } from '../orders/order-effects.js';
import { seeded } from '../orders/seeded.js';
import { ACME, TestApp } from '../support/test-app.js';
import { changeOrder, insertEvent, insertEvents, insertOrders } from './outbox-writer.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start({ RATE_LIMIT: '0' })));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

interface Page {
  readonly data: CloudEvent[];
  readonly nextCursor: string;
}

async function readPage(after: string | undefined, limit = 100): Promise<Page> {
  const query = after === undefined ? '' : `&after=${after}`;
  const { status, body, text } = await service.as().get(`/v1/events?limit=${limit}${query}`);
  expect([status, text]).toEqual([200, text]);
  return body as Page;
}

/** Follows the cursor until a page comes back empty that was asked for after `isOver`. */
async function follow(limit: () => number = () => 100, isOver: () => boolean = () => true): Promise<CloudEvent[]> {
  const seen: CloudEvent[] = [];
  for (let after: string | undefined; ;) {
    const last = isOver();
    const page = await readPage(after, limit());
    if (last && page.data.length === 0) return seen;
    seen.push(...page.data);
    after = page.nextCursor;
  }
}

const idsOf = (events: readonly CloudEvent[]): string[] => events.map(({ id }) => id);

/** Of each aggregate the versions 1, 2, 3 ... in this order, without a gap. */
function expectVersionOrder(events: readonly CloudEvent[]): void {
  const last = new Map<string, number>();
  const outOfOrder = events.filter(({ subject, aggregateversion }) => {
    const expected = (last.get(subject) ?? 0) + 1;
    last.set(subject, Number(aggregateversion));
    return Number(aggregateversion) !== expected;
  });
  expect(outOfOrder).toEqual([]);
}

describe('a reader that follows the cursor', () => {
  it('misses no event and sees none twice, among 12 writers that commit late or not at all', () =>
    seeded(async (random) => {
      const WRITERS = 12;
      const EVENTS = 2_000;
      const orders = await insertOrders(service.database, ACME.tenantId, 40);
      const committed: string[] = [];
      let rolledBack = 0;

      /** Transactions of one to four changes, held open for a while; one in six is rolled back. */
      const writer = async (): Promise<void> => {
        const client = await service.database.connect();
        try {
          while (committed.length < EVENTS) {
            const chosen = orders.filter(() => random() < 2 / orders.length).slice(0, 4); // sorted: no deadlocks
            const written: string[] = [];
            await client.query('BEGIN');
            for (const order of chosen) written.push(await changeOrder(client, ACME.tenantId, order));
            await sleep(random() < 0.1 ? random() * 60 : random() * 4);
            if (random() < 1 / 6) {
              await client.query('ROLLBACK');
              rolledBack += written.length;
            } else {
              await client.query('COMMIT');
              committed.push(...written);
            }
          }
        } finally {
          await client.end();
        }
      };

      let over = false;
      const writing = Promise.all(Array.from({ length: WRITERS }, writer)).finally(() => (over = true));
      const limit = () => 1 + Math.floor(random() * 100);
      const reading = Promise.all([1, 2, 3].map(() => follow(limit, () => over)));
      const [, [first, second, third]] = await Promise.all([writing, reading]);

      expect(idsOf(second!)).toEqual(idsOf(first!));
      expect(idsOf(third!)).toEqual(idsOf(first!));
      const updates = idsOf(first!.filter(({ type }) => type === 'order.updated'));
      expect(new Set(updates).size).toBe(updates.length);
      expect([...updates].sort()).toEqual([...committed].sort());
      expectVersionOrder(first!);
      expect(updates.length).toBeGreaterThanOrEqual(EVENTS);
      expect(rolledBack).toBeGreaterThan(0);
      expect(await service.database.count('outbox')).toBe(first!.length);
      expect(await service.database.count('outbox', 'position IS NULL')).toBe(0);
    }));

  it('gets an event of an earlier time and a lower id that commits behind what was read already (K20)', async () => {
    const early = { id: '00000000-0000-7000-8000-000000000001', aggregateId: randomUUID(), version: 1 };
    const slow = await service.database.connect();
    await slow.query('BEGIN');
    await insertEvent(slow, ACME.tenantId, early);
    const { id } = await createOrder(service);

    const before = await readPage(undefined);
    expect(before.data.map(({ subject }) => subject)).toEqual([id]);
    expect((await readPage(before.nextCursor)).data).toEqual([]);
    await slow.query('COMMIT');
    await slow.end();

    const after = await readPage(before.nextCursor);
    expect(idsOf(after.data)).toEqual([early.id]);
    expect(after.data[0]!.time < before.data[0]!.time).toBe(true);
    expect(idsOf(await follow())).toEqual(idsOf([...before.data, ...after.data]));
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('never waits for a transaction that is still open', async () => {
    const slow = await service.database.connect();
    const { id } = await createOrder(service);
    await slow.query('BEGIN');
    await changeOrder(slow, ACME.tenantId, id);

    const types = (await readPage(undefined)).data.map(({ type }) => type);
    await slow.query('ROLLBACK');
    await slow.end();
    expect(types).toEqual(['order.created']);
    expect(await follow()).toHaveLength(1);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('sees one order of events that have piled up, placed in batches, whoever else reads', async () => {
    await insertEvents(service.database, ACME.tenantId, { aggregates: 50, versions: 100 });
    await readPage(undefined, 1);
    const placed = await service.database.count('outbox', 'position IS NOT NULL');
    expect(placed).toBeGreaterThan(0);
    expect(placed).toBeLessThan(5_000);

    const [first, second, third] = await Promise.all([follow(), follow(() => 7 * 13), follow(() => 64)]);
    expect(idsOf(second)).toEqual(idsOf(first));
    expect(idsOf(third)).toEqual(idsOf(first));
    expect(new Set(idsOf(first)).size).toBe(5_000);
    expectVersionOrder(first);
    expect(await service.database.count('outbox', 'position IS NULL')).toBe(0);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 5000, keys: 0 });
  });

  it('gets its first page at once, however much has piled up for a tenant that the statistics do not know', async () => {
    await service.database.query(`
      INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload, position)
      SELECT gen_random_uuid(), gen_random_uuid(), 'order', gen_random_uuid(), 1, 'order.created', '{}', nullif(n % 2, 0)
      FROM generate_series(1, 50000) n`);
    await service.database.query('VACUUM ANALYZE outbox'); // one row for each tenant, it says from here on
    await insertEvents(service.database, ACME.tenantId, { aggregates: 10_000, versions: 2 });

    expect((await readPage(undefined)).data).toHaveLength(100);
    const placed = 'tenant_id = $1 AND position IS NOT NULL';
    expect(await service.database.count('outbox', placed, [ACME.tenantId])).toBe(2_000);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 70_000, keys: 0 });
  });

  it('is not disturbed by what piles up for another tenant', async () => {
    const stranger = randomUUID();
    await insertEvents(service.database, stranger, { aggregates: 10, versions: 10 });
    const { id } = await createOrder(service);

    expect((await follow()).map(({ subject }) => subject)).toEqual([id]);
    expect(await service.database.count('outbox', 'position IS NULL AND tenant_id = $1', [stranger])).toBe(100);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 101, keys: 1 });
  });
});
