import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { Order } from '../../src/orders/order.entity.js';
import { startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { ApiResponse } from '../support/api-client.js';
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

const raise = (state: string) =>
  routes.query(`DO $$ BEGIN RAISE EXCEPTION 'raised by the test' USING ERRCODE = '${state}'; END $$`);
const send = () => service.as().post('/v1/test/work', {}, 'k-1');

describe('K1: a handler that swallows a failure of the database', () => {
  let swallowed: number;
  const swallow = (): void => void (swallowed += 1);
  beforeEach(() => void (swallowed = 0));

  const failures: [string, (tenantId: string) => unknown][] = [
    ['of a statement', () => routes.query('SELECT 1/0').catch(swallow)],
    ['of a statement that it did not wait for', () => void routes.query('SELECT 1/0').catch(swallow)],
    [
      'of a write through TypeORM',
      (tenantId) =>
        routes.unitOfWork.transaction.manager
          .insert(Order, { tenantId, id: uuidv7(), totalAmount: 0 })
          .then(() => undefined, swallow),
    ],
    ['to serialize', () => raise('40001').catch(swallow)],
    ['to get a lock', () => raise('55P03').catch(swallow)],
    [
      'of a read through the unit of work',
      (tenantId) =>
        routes.unitOfWork
          .read(tenantId, (manager) => manager.query('SELECT * FROM nowhere'))
          .then(() => undefined, swallow),
    ],
    [
      'of a joined unit of work, after half of its writes',
      (tenantId) =>
        routes.unitOfWork
          .run(tenantId, async () => {
            await routes.createOrder(tenantId);
            throw new Error('the second half is missing');
          })
          .catch(swallow),
    ],
    [
      'of a unit of work two levels down',
      (tenantId) =>
        routes.unitOfWork.run(tenantId, () =>
          routes.unitOfWork.run(tenantId, () => Promise.reject(new Error('half'))).catch(swallow),
        ),
    ],
  ];

  /** Asserts a 500 whose failure is in the log under its errorId. */
  function expectLogged(failed: ApiResponse, lines: string[]): void {
    expect([failed.status, failed.body.code]).toEqual([500, 'internal-error']);
    expect(lines.filter((line) => line.includes(`errorId=${failed.body.errorId}`))).toHaveLength(1);
    expect(lines[0]).toContain('TransactionAbortedError');
  }

  const loggedLines = (): string[] => {
    const lines: string[] = [];
    jest.spyOn(Logger.prototype, 'error').mockImplementation((line) => void lines.push(String(line)));
    return lines;
  };

  describe.each([
    ['and returns', false],
    ['and goes on writing', true],
  ])('%s: never a 2xx, nothing stored, logged, and the retry runs again', (_, goesOn) => {
    it.each(failures)('%s', async (_, failure) => {
      const lines = loggedLines();
      routes.work = async ({ tenantId, number }) => {
        await routes.createOrder(tenantId);
        if (number > 1) return {};
        await failure(tenantId);
        if (goesOn) await routes.createOrder(tenantId).catch(swallow);
        return { looks: 'fine' };
      };
      expectLogged(await send(), lines);
      expect(swallowed).toBeGreaterThan(0);
      expect(await service.database.counts()).toEqual(NOTHING);

      const retry = await send();
      expect([retry.status, retry.headers['idempotent-replayed']]).toEqual([201, undefined]);
      expect(routes.calls).toBe(2);
      expect(await service.database.counts()).toEqual(ONCE);
    });
  });

  it.each(failures)('without a key, too: %s', async (_, failure) => {
    const lines = loggedLines();
    routes.work = ({ tenantId, number }) =>
      routes.unitOfWork.run(tenantId, async () => {
        await routes.query('INSERT INTO outbox_heads VALUES ($1)', [tenantId]);
        if (number === 1) await failure(tenantId);
        return {};
      });
    expectLogged(await service.as().patch('/v1/test/optional', {}), lines);
    expect(await service.database.count('outbox_heads')).toBe(0);
    expect((await service.as().patch('/v1/test/optional', {})).status).toBe(200);
    expect(await service.database.count('outbox_heads')).toBe(1);
    expect(await service.database.counts()).toEqual(NOTHING);
  });

  it('the log tells what a joined unit of work had failed of', async () => {
    const lines = loggedLines();
    routes.work = async ({ tenantId }) => {
      await routes.unitOfWork.run(tenantId, () => routes.query('SELECT 1/0')).catch(swallow);
    };
    expectLogged(await send(), lines);
    expect(lines[0]).toContain('division by zero');
    expect(await service.database.counts()).toEqual(NOTHING);
  });
});
