import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { OrderView } from '../../src/orders/dto/order-view.js';
import { newOrder } from '../support/api-client.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { createOrder } from './order-effects.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

/** Puts orders into the table, the n-th made at `start` plus n times `step` (an interval). */
async function insertOrders(count: number, step: string, start = '2026-01-01 10:00:00+00'): Promise<string[]> {
  const rows = await service.database.query<{ id: string }>(
    `INSERT INTO orders (tenant_id, id, status, currency, items, total_amount, metadata, version, created_at)
     SELECT $1, gen_random_uuid(), 'pending', 'EUR', '[{"sku":"tea","quantity":1,"unitAmount":1}]', 1, '{}', 1,
            $2::timestamptz + n * $3::interval
     FROM generate_series(1, $4) n
     RETURNING id`,
    [ACME.tenantId, start, step, count],
  );
  return rows.map(({ id }) => id);
}

/** Follows the cursor to the end; `meanwhile` runs between the pages. */
async function readAll(query: string, meanwhile: () => Promise<void> = async () => {}): Promise<OrderView[]> {
  const seen: OrderView[] = [];
  for (let after = ''; ;) {
    const { status, body, text } = await service.as().get(`/v1/orders?${query}${after}`);
    expect([status, text]).toEqual([200, text]);
    seen.push(...(body.data as OrderView[]));
    if (body.nextCursor === null) return seen;
    after = `&after=${body.nextCursor}`;
    await meanwhile();
  }
}

const idsOf = (orders: readonly { id: string }[]): string[] => orders.map(({ id }) => id);

describe('GET /v1/orders', () => {
  it('lists orders oldest first, as GET shows each', async () => {
    const orders = [await createOrder(service), await createOrder(service), await createOrder(service)];
    const { status, body } = await service.as().get('/v1/orders');

    expect(status).toBe(200);
    expect(body).toEqual({ data: orders, nextCursor: null });
    expect(await service.database.counts()).toEqual({ orders: 3, events: 3, keys: 3 });
  });

  it('is empty before the first order', async () => {
    expect((await service.as().get('/v1/orders')).body).toEqual({ data: [], nextCursor: null });
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it("shows neither deleted orders nor another tenant's", async () => {
    const [kept, deleted] = [await createOrder(service), await createOrder(service)];
    await service.as().delete(`/v1/orders/${deleted.id}`);
    await service.as(GLOBEX).post('/v1/orders', newOrder());

    expect(idsOf((await service.as().get('/v1/orders')).body.data)).toEqual([kept.id]);
    expect(await service.database.counts()).toEqual({ orders: 3, events: 4, keys: 3 });
  });

  it('gives 50 at a time unless told otherwise, and at most 100', async () => {
    const ids = await insertOrders(101, '1 second');

    const [standard, most] = [await service.as().get('/v1/orders'), await service.as().get('/v1/orders?limit=100')];
    expect(idsOf(standard.body.data)).toEqual(ids.slice(0, 50));
    expect(idsOf(most.body.data)).toEqual(ids.slice(0, 100));
    expect(most.body.nextCursor).toEqual(expect.any(String));
    expect(await service.database.counts()).toEqual({ orders: 101, events: 0, keys: 0 });
  });

  it.each([1, 7, 50])('ends where the orders end, also where a page is just full: pages of %d', async (limit) => {
    const ids = await insertOrders(50, '1 second');

    expect(idsOf(await readAll(`limit=${limit}`))).toEqual(ids);
    expect(await service.database.counts()).toEqual({ orders: 50, events: 0, keys: 0 });
  });

  it('filters by status and by external reference, page by page', async () => {
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push((await createOrder(service, { externalRef: `web-${n}` })).id);
    for (const n of [1, 3, 4]) await service.as().put(`/v1/orders/${ids[n]}/status`, { status: 'cancelled' });

    expect(idsOf(await readAll('status=cancelled&limit=2'))).toEqual([ids[1], ids[3], ids[4]]);
    expect(idsOf(await readAll('status=pending&limit=1'))).toEqual([ids[0], ids[2], ids[5]]);
    expect(idsOf(await readAll('externalRef=web-3'))).toEqual([ids[3]]);
    expect(idsOf(await readAll('externalRef=web-3&status=cancelled'))).toEqual([ids[3]]);
    expect(idsOf(await readAll('externalRef=web-3&status=pending'))).toEqual([]);
    expect(idsOf(await readAll('externalRef=web'))).toEqual([]);
    expect(await service.database.counts()).toEqual({ orders: 6, events: 9, keys: 6 });
  });
});

describe('a list that is read page by page', () => {
  it.each([
    ['at the same moment', '0 seconds'],
    ['within one millisecond', '1 microsecond'],
    ['at times without a fraction', '1 second'],
  ])('gives each order once when they were made %s', async (_when, step) => {
    const ids = await insertOrders(60, step);
    const seen = idsOf(await readAll('limit=7'));

    expect(new Set(seen).size).toBe(60);
    expect([...seen].sort()).toEqual([...ids].sort());
    expect(await service.database.counts()).toEqual({ orders: 60, events: 0, keys: 0 });
  });

  it('gives each order that stays unchanged once, while others come, change and go', async () => {
    const ids = await insertOrders(60, '1 microsecond');
    const changing = ids.filter((_, n) => n % 2 === 1);
    let turn = 0;
    const seen = await readAll('limit=7', async () => {
      const [edited, deleted] = changing.splice(turn++ % 2 === 0 ? 0 : -2, 2) as [string, string];
      const edit = await service
        .as()
        .patch(`/v1/orders/${edited}`, { metadata: { turn: `${turn}` } }, { 'If-Match': '"1"' });
      expect([edit.status, (await service.as().delete(`/v1/orders/${deleted}`)).status]).toEqual([200, 204]);
      await createOrder(service);
      await insertOrders(1, '1 microsecond', '2026-01-01 09:00:00+00'); // before everything read so far
    });

    const unchanged = ids.filter((_, n) => n % 2 === 0);
    const seenOnce = idsOf(seen).filter((id) => unchanged.includes(id));
    expect(seenOnce).toEqual(unchanged);
    expect(new Set(idsOf(seen)).size).toBe(seen.length);
    expect(turn).toBeGreaterThan(5);
    expect(await service.database.counts()).toEqual({ orders: 60 + 2 * turn, events: 3 * turn, keys: turn });
  });

  it('goes on from a cursor whose order is gone by now', async () => {
    const ids = await insertOrders(5, '1 second');
    const first = await service.as().get('/v1/orders?limit=2');
    await service.as().delete(`/v1/orders/${ids[1]}`);
    const rest = await service.as().get(`/v1/orders?after=${first.body.nextCursor}`);

    expect(idsOf(rest.body.data)).toEqual(ids.slice(2));
  });

  it("shows nothing of another tenant's under that tenant's cursor", async () => {
    await insertOrders(5, '1 second');
    const { nextCursor } = (await service.as().get('/v1/orders?limit=1')).body;

    const theirs = await service.as(GLOBEX).get(`/v1/orders?after=${nextCursor}`);
    expect(theirs.body).toEqual({ data: [], nextCursor: null });
  });
});

describe('a list request that is not valid', () => {
  const forged = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url');
  const id = randomUUID();

  it.each([
    ['limit=0', '/limit'],
    ['limit=101', '/limit'],
    ['limit=-1', '/limit'],
    ['limit=1.5', '/limit'],
    ['limit=abc', '/limit'],
    ['limit=010', '/limit'],
    ['limit=', '/limit'],
    ['limit=1&limit=2', '/limit'],
    ['status=open', '/status'],
    ['status=pending&status=paid', '/status'],
    ['externalRef=', '/externalRef'],
    [`externalRef=${'r'.repeat(256)}`, '/externalRef'],
    ['externalRef=%00', '/externalRef'],
    ['page=2', '/page'],
    ['constructor=1', '/constructor'],
    ['after=', '/after'],
    ['after=abc', '/after'],
    [`after=${'a'.repeat(600)}`, '/after'],
    [`after=${forged('2026-01-01 10:00:00+00')}`, '/after'],
    [`after=${forged('now', id)}`, '/after'],
    [`after=${forged('infinity', id)}`, '/after'],
    [`after=${forged('2026-01-01 10:00:00+00', 'x')}`, '/after'],
    [`after=${forged('2026-01-01 10:00:00+00', 7)}`, '/after'],
  ])('is refused with the place of the fault: %s', async (query, pointer) => {
    const { status, body } = await service.as().get(`/v1/orders?${query}`);

    expect([status, body.code]).toEqual([400, 'validation-failed']);
    expect(body.errors).toEqual([{ pointer, detail: expect.stringMatching(/\w+ \w+/) }]);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it.each([
    '2026-13-01 10:00:00+00',
    '2026-06-31 10:00:00+00',
    '2026-01-01 10:00:00+99',
    '999999-01-01 10:00:00+00',
    '-infinity',
    '-1',
    '1e9',
    '9'.repeat(17),
    '9'.repeat(16),
    '0',
  ])('is never a failure of the service, whatever time a cursor was made up with: %s', async (time) => {
    const { status, body } = await service.as().get(`/v1/orders?after=${forged(time, id)}`);

    expect([200, 400]).toContain(status);
    if (status === 400) expect(body.errors).toEqual([{ pointer: '/after', detail: expect.any(String) }]);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('is refused under the cursor of the event log', async () => {
    await createOrder(service);
    const { nextCursor } = (await service.as().get('/v1/events')).body;
    const { status, body } = await service.as().get(`/v1/orders?after=${nextCursor}`);

    expect([status, body.errors[0].pointer]).toEqual([400, '/after']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});
