import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import { ACME, GLOBEX, type TestApp } from '../support/test-app.js';
import { expectReplayOf } from './expect-replay-of.js';

describe('K3, M4: a key belongs to one tenant and one endpoint', () => {
  let service: TestApp;
  let routes: TestRoutes;
  beforeAll(async () => ({ service, routes } = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '20s' })));
  afterAll(() => service.stop());
  beforeEach(async () => {
    routes.reset();
    await service.database.clear();
  });

  it('two tenants with the same key and body have two orders, and each gets its own again', async () => {
    const acme = await service.as().post('/v1/orders', newOrder(), 'k-1');
    const globex = await service.as(GLOBEX).post('/v1/orders', newOrder(), 'k-1');
    expect([acme.status, globex.status]).toEqual([201, 201]);
    expect(globex.headers['idempotent-replayed']).toBeUndefined();
    expect(globex.body.id).not.toBe(acme.body.id);

    expectReplayOf(acme, await service.as().post('/v1/orders', newOrder(), 'k-1'));
    expectReplayOf(globex, await service.as(GLOBEX).post('/v1/orders', newOrder(), 'k-1'));
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 2 });
    expect(await service.database.count('(SELECT DISTINCT tenant_id FROM orders) AS tenants')).toBe(2);
  });

  it('nobody waits for another tenant or another endpoint', async () => {
    const gate = new Gate();
    routes.work = async ({ tenantId, number }) => {
      const order = await routes.createOrder(tenantId);
      if (number === 1) await gate.pass();
      return order;
    };
    const held = service.as().post('/v1/test/work', {}, 'k-1');
    await gate.reached;
    for (const [tenant, path] of [
      [GLOBEX, 'work'],
      [ACME, 'other'],
    ] as const) {
      const answer = await service.as(tenant).post(`/v1/test/${path}`, {}, 'k-1'); // arrives, or this test hangs
      expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([201, undefined]);
    }
    gate.open();
    expect((await held).status).toBe(201);
    expect(await service.database.counts()).toEqual({ orders: 3, events: 3, keys: 3 });
  });

  it('another body of another tenant is no mismatch', async () => {
    await service.as().post('/v1/orders', newOrder(), 'k-1');
    const globex = await service.as(GLOBEX).post('/v1/orders', newOrder({ currency: 'USD' }), 'k-1');
    expect(globex.status).toBe(201);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 2 });
  });

  it('the same key on two routes names two operations', async () => {
    routes.work = ({ tenantId }) => routes.createOrder(tenantId);
    const work = await service.as().post('/v1/test/work', {}, 'k-1');
    const other = await service.as().post('/v1/test/other', {}, 'k-1');
    const order = await service.as().post('/v1/orders', newOrder(), 'k-1');
    expect([work.status, other.status, order.status]).toEqual([201, 201, 201]);
    expectReplayOf(work, await service.as().post('/v1/test/work', {}, 'k-1'));
    expectReplayOf(other, await service.as().post('/v1/test/other', {}, 'k-1'));
    expectReplayOf(order, await service.as().post('/v1/orders', newOrder(), 'k-1'));
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual({ orders: 3, events: 3, keys: 3 });
  });

  it('another path under one route template is another request: 422', async () => {
    const one = await service.as().post('/v1/test/items/1', {}, 'k-1');
    const two = await service.as().post('/v1/test/items/2', {}, 'k-1');
    expect(one.status).toBe(201);
    expect([two.status, two.body.code]).toEqual([422, 'idempotency-key-reused']);
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });

  it.each([
    ['below a wildcard', '/v1/test/files/a/b', '/v1/test/files/a/c'],
    ['split otherwise below a wildcard', '/v1/test/files/a/b', '/v1/test/files/a%2Fb'],
    ['with two parameters in a segment', '/v1/test/ranges/1-2', '/v1/test/ranges/1-3'],
    ['with an optional segment', '/v1/test/steps/1', '/v1/test/steps/2'],
    ['with and without an optional segment', '/v1/test/steps', '/v1/test/steps/1'],
  ])('so it is %s', async (_, one, other) => {
    const first = await service.as().post(one, {}, 'k-1');
    expect(first.status).toBe(201);
    const second = await service.as().post(other, {}, 'k-1');
    expect([second.status, second.body.code]).toEqual([422, 'idempotency-key-reused']);
    expectReplayOf(first, await service.as().post(one, {}, 'k-1'));
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });

  it('PATCH of two orders with one key changes the first and refuses the second', async () => {
    const ids = [];
    for (const sku of ['a', 'b']) {
      const { body } = await service.as().post('/v1/orders', newOrder({ items: [{ sku, unitAmount: 100 }] }));
      ids.push(body.id as string);
    }
    const change = (id: string | undefined) =>
      service
        .as()
        .patch(`/v1/orders/${id}`, { metadata: { gift: 'yes' } }, { 'Idempotency-Key': 'k-1', 'If-Match': '"1"' });
    const first = await change(ids[0]);
    expect([first.status, first.headers.etag]).toEqual([200, '"2"']);
    const refused = await change(ids[1]);
    expect([refused.status, refused.body.code]).toEqual([422, 'idempotency-key-reused']);
    expect(await service.database.count('orders', 'version = 2')).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 3, keys: 3 });

    expectReplayOf(first, await change(ids[0]!.toUpperCase()));
    expect(await service.database.counts()).toEqual({ orders: 2, events: 3, keys: 3 });
  });

  it('one key on POST and PATCH of orders names two operations', async () => {
    const created = await service.as().post('/v1/orders', newOrder(), 'k-1');
    const headers = { 'Idempotency-Key': 'k-1', 'If-Match': '"1"' };
    const changed = await service.as().patch(created.headers.location!, { metadata: { gift: 'yes' } }, headers);
    expect(changed.status).toBe(200);
    expectReplayOf(created, await service.as().post('/v1/orders', newOrder(), 'k-1'));
    expectReplayOf(
      changed,
      await service.as().patch(created.headers.location!, { metadata: { gift: 'yes' } }, headers),
    );
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });
});
