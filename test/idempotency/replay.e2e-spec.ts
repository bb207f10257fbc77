import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';
import { expectReplayOf } from './expect-replay-of.js';

const NOTHING = { orders: 0, events: 0, keys: 0 };

describe('M2, M3: a request that arrives again', () => {
  let service: TestApp;
  let routes: TestRoutes;
  beforeAll(async () => ({ service, routes } = await startWithTestRoutes()));
  afterAll(() => service.stop());
  beforeEach(async () => {
    routes.reset();
    await service.database.clear();
  });

  it('gets the first answer byte for byte, and nothing runs', async () => {
    const first = await service.as().post('/v1/orders', newOrder(), 'k-1');
    const second = await service.as().post('/v1/orders', newOrder(), 'k-1');

    expect(first.status).toBe(201);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect(second.status).toBe(201);
    expect(second.headers['idempotent-replayed']).toBe('true');
    expect(second.bytes).toEqual(first.bytes);
    for (const name of ['content-type', 'location', 'etag', 'idempotency-expires']) {
      expect(first.headers[name]).toBeDefined();
      expect(second.headers[name]).toBe(first.headers[name]);
    }
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('gets it as often as it comes, and the handler is called once', async () => {
    routes.work = ({ tenantId }) => routes.createOrder(tenantId);
    const first = await service.as().post('/v1/test/work', { a: 1 }, 'k-1');
    for (let times = 0; times < 5; times++) {
      expectReplayOf(first, await service.as().post('/v1/test/work', { a: 1 }, 'k-1'));
    }
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('gets it from another replica of the service, too', async () => {
    const other = await startWithTestRoutes({}, { database: service.database });
    try {
      routes.work = ({ tenantId }) => routes.createOrder(tenantId);
      const first = await service.as().post('/v1/test/work', { a: 1 }, 'k-1');
      expectReplayOf(first, await other.service.as().post('/v1/test/work', { a: 1 }, 'k-1'));
      expect(other.routes.calls).toBe(0);
      expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
    } finally {
      await other.service.app.close();
    }
  });

  it('gets a snapshot, whatever has become of the resource since (M13)', async () => {
    const first = await service.as().post('/v1/orders', newOrder(), 'k-1');
    await service.as().put(`${first.headers.location}/status`, { status: 'cancelled' });
    const again = await service.as().post('/v1/orders', newOrder(), 'k-1');
    expectReplayOf(first, again);
    expect(again.body).toMatchObject({ status: 'pending', version: 1 });

    await service.as().delete(first.headers.location!);
    expectReplayOf(first, await service.as().post('/v1/orders', newOrder(), 'k-1'));
    expect(await service.database.counts()).toEqual({ orders: 1, events: 3, keys: 1 });
  });

  it('is told until when its answer is kept: 24 hours from completion (M12)', async () => {
    const first = await service.as().post('/v1/orders', newOrder(), 'k-1');
    const [row] = await service.database.query<{ kept: string; expires_at: Date }>(
      'SELECT extract(epoch FROM expires_at - completed_at)::text AS kept, expires_at FROM idempotency_keys',
    );
    expect(Number(row!.kept)).toBe(24 * 3_600);
    expect(first.headers['idempotency-expires']).toBe(row!.expires_at.toISOString());
  });

  it('is answered to whom may ask only: without login there is no replay, and no claim', async () => {
    const stranger = service.as({ key: 'sk_unknown' });
    expect((await stranger.post('/v1/orders', newOrder(), 'k-1')).status).toBe(401);
    expect(await service.database.counts()).toEqual(NOTHING);

    await service.as().post('/v1/orders', newOrder(), 'k-1');
    const refused = await stranger.post('/v1/orders', newOrder(), 'k-1');
    expect([refused.status, refused.headers['idempotent-replayed']]).toEqual([401, undefined]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('executes each time where it carries no key and none is required', async () => {
    routes.work = ({ tenantId }) => routes.unitOfWork.run(tenantId, () => routes.createOrder(tenantId));
    for (let times = 0; times < 2; times++) {
      const { status, headers } = await service.as().patch('/v1/test/optional', {});
      expect(status).toBe(200);
      expect(headers['idempotency-expires']).toBeUndefined();
    }
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 0 });
  });
});
