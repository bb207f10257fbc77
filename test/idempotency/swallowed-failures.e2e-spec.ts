import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { Order } from '../../src/orders/order.entity.js';
import { type Call, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';

const NOTHING = { orders: 0, events: 0, keys: 0 };
const ONCE = { orders: 1, events: 1, keys: 1 };

let service: TestApp;
let routes: TestRoutes;
beforeAll(async () => ({ service, routes } = await startWithTestRoutes()));
afterAll(() => service.stop());
beforeEach(async () => {
  routes.reset();
  await service.database.clear();
});
afterEach(() => void jest.restoreAllMocks());

const send = () => service.as().post('/v1/test/work', {}, 'k-1');

describe('K1: a handler that swallows a failure of the database and returns as if nothing had been', () => {
  const swallowed = { rejected: 0 };
  const swallow = (): void => void (swallowed.rejected += 1);

  it.each<[string, (call: Call) => Promise<void>]>([
    ['a failing statement', () => routes.query('SELECT 1/0').then(() => undefined, swallow)],
    [
      'a failing statement that is the last',
      ({ tenantId }) =>
        routes.createOrder(tenantId).then(() => routes.query('SELECT 1/0').then(() => undefined, swallow)),
    ],
    [
      'a violated constraint of save()',
      ({ tenantId }) =>
        routes.unitOfWork.transaction.manager
          .insert(Order, { tenantId, id: uuidv7(), totalAmount: 0 })
          .then(() => undefined, swallow),
    ],
    ['a statement that nobody waited for', () => Promise.resolve(void routes.query('SELECT 1/0').catch(swallow))],
    [
      'a serialization failure',
      () =>
        routes
          .query(`DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$`)
          .then(() => undefined, swallow),
    ],
    [
      'a lock timeout',
      async () => {
        await routes.query(`DO $$ BEGIN RAISE EXCEPTION 'locked' USING ERRCODE = '55P03'; END $$`).catch(swallow);
      },
    ],
    [
      'a read through the unit of work',
      ({ tenantId }) =>
        routes.unitOfWork
          .read(tenantId, (manager) => manager.query('SELECT * FROM nowhere'))
          .then(() => undefined, swallow),
    ],
    [
      'a failure of a joined unit of work, after half of its writes',
      ({ tenantId }) =>
        routes.unitOfWork
          .run(tenantId, async () => {
            await routes.createOrder(tenantId);
            throw new Error('the second half is missing');
          })
          .catch(swallow),
    ],
    [
      'a failure of a unit of work two levels down',
      ({ tenantId }) =>
        routes.unitOfWork
          .run(tenantId, () =>
            routes.unitOfWork
              .run(tenantId, () => routes.createOrder(tenantId).then(() => Promise.reject(new Error('half'))))
              .catch(swallow),
          )
          .then(() => undefined),
    ],
    [
      'a unit of work of another tenant',
      ({ tenantId }) =>
        routes
          .query('SELECT 1/0')
          .catch(async () => {
            await routes.unitOfWork.run(tenantId.replace(/.$/, '0'), () => Promise.resolve()).catch(swallow);
          })
          .then(() => undefined),
    ],
  ])('%s: never a 2xx, nothing stored, logged, and the retry runs again', async (_, failure) => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    swallowed.rejected = 0;
    routes.work = async (call) => {
      if (call.number === 1) await failure(call);
      await routes.createOrder(call.tenantId).catch(swallow);
      return { looks: 'fine' };
    };
    const failed = await send();
    expect([failed.status, failed.body.code]).toEqual([500, 'internal-error']);
    expect(swallowed.rejected).toBeGreaterThan(0);
    expect(await service.database.counts()).toEqual(NOTHING);
    const lines = logged.mock.calls.map(([line]) => String(line));
    expect(lines.filter((line) => line.includes(`errorId=${failed.body.errorId}`))).toHaveLength(1);
    expect(lines[0]).toContain('TransactionAbortedError');

    const retry = await send();
    expect([retry.status, retry.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('is told of in the log together with what had failed first', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    routes.work = async ({ tenantId }) => {
      await routes.unitOfWork.run(tenantId, () => routes.query('SELECT 1/0')).catch(() => undefined);
    };
    expect((await send()).status).toBe(500);
    expect(String(logged.mock.calls[0]![0])).toContain('division by zero');
    expect(await service.database.counts()).toEqual(NOTHING);
  });
});
