import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import {
  BadRequestException,
  ConflictException,
  GoneException,
  HttpException,
  Logger,
  NotFoundException,
  PreconditionFailedException,
  ServiceUnavailableException,
  UnprocessableEntityException,
} from '@nestjs/common';
import { newOrder } from '../support/api-client.js';
import { startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';
import { expectReplayOf } from './expect-replay-of.js';

const NOTHING = { orders: 0, events: 0, keys: 0 };

let service: TestApp;
let routes: TestRoutes;
beforeAll(async () => ({ service, routes } = await startWithTestRoutes()));
afterAll(() => service.stop());
beforeEach(async () => {
  routes.reset();
  await service.database.clear();
});
afterEach(() => void jest.restoreAllMocks());

const work = (key = 'k-1') => service.as().post('/v1/test/work', {}, key);

describe('K9, M10: a refusal that says the same however often it is asked is stored and replayed', () => {
  it('a validation error, verbatim, with the marker', async () => {
    const wrong = newOrder({ items: [{ sku: 'tea', quantity: 0, unitAmount: 450 }] });
    const first = await service.as().post('/v1/orders', wrong, 'k-1');
    expect([first.status, first.body.code]).toEqual([400, 'validation-failed']);
    expect(first.body.errors).toMatchObject([{ pointer: '/items/0/quantity' }]);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect(first.headers['idempotency-expires']).toBeDefined();
    expectReplayOf(first, await service.as().post('/v1/orders', wrong, 'k-1'));
    expect(await service.database.counts()).toEqual({ ...NOTHING, keys: 1 });
  });

  it('duplicate-external-ref, even after the order that it names is gone', async () => {
    const { body: existing } = await service.as().post('/v1/orders', newOrder({ externalRef: 'web-1' }));
    const again = () => service.as().post('/v1/orders', newOrder({ externalRef: 'web-1', currency: 'USD' }), 'k-1');
    const first = await again();
    expect([first.status, first.body.code, first.body.orderId]).toEqual([409, 'duplicate-external-ref', existing.id]);
    expectReplayOf(first, await again());

    await service.as().delete(`/v1/orders/${existing.id}`);
    expectReplayOf(first, await again());
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it('order-not-editable of a PATCH under a key', async () => {
    const { headers } = await service.as().post('/v1/orders', newOrder());
    await service.as().put(`${headers.location}/status`, { status: 'cancelled' });
    const change = () =>
      service.as().patch(headers.location!, { metadata: { a: 'b' } }, { 'Idempotency-Key': 'k-1', 'If-Match': '"2"' });
    const first = await change();
    expect([first.status, first.body.code]).toEqual([409, 'order-not-editable']);
    expectReplayOf(first, await change());
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it.each<[number, HttpException]>([
    [400, new BadRequestException('no')],
    [402, new HttpException('no', 402)],
    [422, new UnprocessableEntityException('no')],
  ])('an HttpException %i of the handler', async (status, exception) => {
    routes.work = () => Promise.reject(exception);
    const first = await work();
    expect([first.status, first.body.detail]).toEqual([status, 'no']);
    expectReplayOf(first, await work());
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ ...NOTHING, keys: 1 });
  });

  it('and what the handler had written is undone, its events included', async () => {
    routes.work = async ({ tenantId }) => {
      await routes.createOrder(tenantId);
      throw new UnprocessableEntityException('no');
    };
    const first = await work();
    expect(first.status).toBe(422);
    expectReplayOf(first, await work());
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ ...NOTHING, keys: 1 });
  });

  it('also where it was a failed statement that led to the refusal: the transaction is whole again', async () => {
    routes.work = async ({ tenantId }) => {
      await routes.createOrder(tenantId);
      await routes.query('SELECT 1/0').catch(() => {
        throw new UnprocessableEntityException('no');
      });
    };
    const first = await work();
    expect(first.status).toBe(422);
    expectReplayOf(first, await work());
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ ...NOTHING, keys: 1 });
  });
});

describe('K9, K26, M10: a refusal that may pass frees the key, so that a retry runs', () => {
  it('404: the order is created, and the same key changes it', async () => {
    const id = '0198c0de-0000-7000-8000-00000000abcd';
    const change = () =>
      service.as().patch(`/v1/orders/${id}`, { metadata: { a: 'b' } }, { 'Idempotency-Key': 'k-1', 'If-Match': '"1"' });
    const refused = await change();
    expect([refused.status, refused.body.code]).toEqual([404, 'not-found']);
    expect(refused.headers['idempotency-expires']).toBeUndefined();
    expect(await service.database.counts()).toEqual(NOTHING);

    await service.as().put(`/v1/orders/${id}`, newOrder());
    const changed = await change();
    expect([changed.status, changed.headers['idempotent-replayed']]).toEqual([200, undefined]);
    expectReplayOf(changed, await change());
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 1 });
  });

  it('428 and 412: the same key succeeds with the right If-Match, which then no longer counts', async () => {
    const { headers } = await service.as().post('/v1/orders', newOrder(), 'k-0');
    const change = (ifMatch: Record<string, string>) =>
      service.as().patch(headers.location!, { metadata: { a: 'b' } }, { 'Idempotency-Key': 'k-1', ...ifMatch });
    expect((await change({})).status).toBe(428);
    const stale = await change({ 'If-Match': '"7"' });
    expect([stale.status, stale.headers.etag]).toEqual([412, '"1"']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });

    const changed = await change({ 'If-Match': '"1"' });
    expect([changed.status, changed.headers.etag]).toEqual([200, '"2"']);
    expectReplayOf(changed, await change({ 'If-Match': '"1"' }));
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it.each<[number, string, HttpException]>([
    [404, 'not-found', new NotFoundException('not yet')],
    [409, 'conflict', new ConflictException('not yet')],
    [410, 'gone', new GoneException('not yet')],
    [412, 'precondition-failed', new PreconditionFailedException('not yet')],
    [429, 'too-many-requests', new HttpException('not yet', 429)],
    [503, 'service-unavailable', new ServiceUnavailableException('not yet')],
  ])('an HttpException %i of the handler', async (status, code, exception) => {
    routes.work = async ({ tenantId, number }) => {
      const order = await routes.createOrder(tenantId);
      if (number === 1) throw exception;
      return order;
    };
    const refused = await work();
    expect([refused.status, refused.body.code, refused.body.detail]).toEqual([status, code, 'not yet']);
    expect(refused.headers['idempotency-expires']).toBeUndefined();
    expect(await service.database.counts()).toEqual(NOTHING);

    const retry = await work();
    expect([retry.status, retry.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each<[string, unknown]>([
    ['an Error', new Error('S3CR3T inside')],
    ['an HttpException 500', new HttpException('S3CR3T inside', 500)],
    ['an HttpException 502', new HttpException('S3CR3T inside', 502)],
    ['a string', 'S3CR3T inside'],
    ['nothing at all', undefined],
  ])(
    'a 500 before the commit (thrown: %s) runs again; its errorId is in the log, its inside is not told',
    async (_, thrown) => {
      const logged = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
      routes.work = async ({ tenantId, number }) => {
        const order = await routes.createOrder(tenantId);
        if (number === 1) throw thrown;
        return order;
      };
      const failed = await work();
      expect([failed.status, failed.body.code]).toEqual([500, 'internal-error']);
      expect(failed.text).not.toContain('S3CR3T');
      expect(
        logged.mock.calls.map(([line]) => String(line)).filter((line) => line.includes(failed.body.errorId)),
      ).toHaveLength(1);
      expect(await service.database.counts()).toEqual(NOTHING);

      expect((await work()).status).toBe(201);
      expect(routes.calls).toBe(2);
      expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
    },
  );

  it.each([200, 204, 302, 304])('K1: an exception with status %i does not look like a success', async (status) => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    routes.work = async ({ tenantId }) => {
      await routes.createOrder(tenantId);
      throw new HttpException('thrown all the same', status);
    };
    expect((await work()).status).toBeGreaterThanOrEqual(400);
    expect(await service.database.counts()).toEqual(NOTHING);
  });

  it('another request may take a key that was freed', async () => {
    routes.work = () => Promise.reject(new NotFoundException());
    expect((await service.as().post('/v1/test/work', { n: 1 }, 'k-1')).status).toBe(404);
    routes.work = ({ tenantId }) => routes.createOrder(tenantId);
    expect((await service.as().post('/v1/test/work', { n: 2 }, 'k-1')).status).toBe(201);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});
