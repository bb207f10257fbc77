import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, UnprocessableEntityException } from '@nestjs/common';
import pg from 'pg';
import { from, merge, mergeMap, throwError } from 'rxjs';
import { v7 as uuidv7 } from 'uuid';
import { Order } from '../../src/orders/order.entity.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
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

/** An order as an entity, to be written by TypeORM. */
function entity(tenantId: string): Order {
  const content = { currency: 'EUR', items: [], totalAmount: 100, metadata: {}, externalRef: null };
  const times = { createdAt: new Date(), updatedAt: new Date(), deletedAt: null };
  return Object.assign(new Order(), { tenantId, id: uuidv7(), status: 'pending', version: 1, ...content, ...times });
}

describe('M8: claim, effect, event and answer', () => {
  it('become visible together', async () => {
    const gate = new Gate();
    routes.work = async ({ tenantId }) => {
      const order = await routes.createOrder(tenantId);
      await gate.pass();
      return order;
    };
    const running = send();
    await gate.reached;
    expect(await service.database.counts()).toEqual(NOTHING);
    expect((await service.as().get('/v1/orders')).body.data).toEqual([]);
    expect((await service.as().get('/v1/events')).body.data).toEqual([]);
    gate.open();
    expect((await running).status).toBe(201);
    expect(await service.database.counts()).toEqual(ONCE);
    const [row] = await service.database.query<{ same: boolean }>(`
      SELECT o.xmin = k.xmin AND k.xmin = e.xmin AS same FROM orders o, idempotency_keys k, outbox e`);
    expect(row!.same).toBe(true); // one transaction wrote them all
  });

  it('are written in one transaction: one BEGIN, one COMMIT, whatever the handler uses', async () => {
    routes.work = async ({ tenantId }) => {
      const { manager } = routes.unitOfWork.transaction;
      await manager.save(entity(tenantId));
      await manager.transaction((nested) => nested.save(entity(tenantId)));
      await manager.insert(Order, entity(tenantId));
      return routes.unitOfWork.run(tenantId, () => routes.createOrder(tenantId));
    };
    const sent = jest.spyOn(pg.Client.prototype, 'query');
    expect((await send()).status).toBe(201);
    const texts = sent.mock.calls.map(([text]) => String((text as { text?: string }).text ?? text).trim());
    const ending = texts.filter((text) => /^(BEGIN|START TRANSACTION|COMMIT|END|ROLLBACK(?! TO))/i.test(text));
    expect(ending).toEqual([expect.stringMatching(/^BEGIN/), 'COMMIT']);
    expect(texts.filter((text) => /INTO "?orders/.test(text))).toHaveLength(4);
    expect(await service.database.counts()).toEqual({ orders: 4, events: 1, keys: 1 });
  });

  it.each<[string, (tenantId: string) => Promise<unknown>]>([
    ['save()', (tenantId) => routes.unitOfWork.transaction.manager.save(entity(tenantId))],
    [
      'save() of many',
      (tenantId) =>
        routes.unitOfWork.transaction.manager.save([entity(tenantId), entity(tenantId), entity(tenantId)], {
          chunk: 1,
        }),
    ],
    [
      'a nested manager.transaction()',
      (tenantId) => routes.unitOfWork.transaction.manager.transaction((nested) => nested.save(entity(tenantId))),
    ],
    ['a repository', (tenantId) => routes.unitOfWork.transaction.manager.getRepository(Order).save(entity(tenantId))],
    [
      'a joined unit of work',
      (tenantId) => routes.unitOfWork.run(tenantId, ({ manager }) => manager.save(entity(tenantId))),
    ],
    ['a read that writes', (tenantId) => routes.unitOfWork.read(tenantId, (manager) => manager.save(entity(tenantId)))],
  ])('%s commits nothing by itself: what the handler throws afterwards undoes it', async (_, write) => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    routes.work = async ({ tenantId, number }) => {
      await write(tenantId);
      if (number === 1) throw new Error('broken');
      return {};
    };
    expect((await send()).status).toBe(500);
    expect(await service.database.counts()).toEqual(NOTHING);
    expect((await send()).status).toBe(201);
    const { orders, keys } = await service.database.counts();
    expect([orders > 0, keys]).toEqual([true, 1]);
  });

  it('fail together when what travels with COMMIT fails', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    routes.work = async ({ tenantId, number }) => {
      if (number === 1) routes.unitOfWork.transaction.closeWith({ text: 'SELECT 1/0' });
      return routes.createOrder(tenantId);
    };
    expect((await send()).status).toBe(500);
    expect(String(logged.mock.calls[0]![0])).toContain('division by zero');
    expect(await service.database.counts()).toEqual(NOTHING);
    expect((await send()).status).toBe(201);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('stand or fall together when the handler does several things at once', async () => {
    routes.work = async ({ tenantId, number }) => {
      const refs = number === 1 ? ['a', 'a', 'b'] : ['a', 'b', 'c'];
      await Promise.all(refs.map((externalRef) => routes.createOrder(tenantId, { externalRef })));
    };
    const refused = await send();
    expect([refused.status, refused.body.code]).toEqual([409, 'duplicate-external-ref']);
    expect(await service.database.counts()).toEqual({ ...NOTHING, keys: 1 });
    expect((await service.as().post('/v1/test/work', {}, 'k-2')).status).toBe(201);
    expect(await service.database.counts()).toEqual({ orders: 3, events: 3, keys: 2 });
  });

  // Microtasks decide what is torn here, so a late write is tried at every turn around the commit.
  const everyTurn = Array.from({ length: 20 }, (_, turns) => turns);
  const late = async (turns: number, write: () => unknown): Promise<void> => {
    await routes.query('SELECT 1');
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    await write();
  };

  it('are whole or not there when the handler does not wait for its own writes', async () => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const torn: unknown[] = [];
    for (const turns of everyTurn) {
      let written: Promise<unknown> = Promise.resolve();
      routes.work = async ({ tenantId }) => {
        const waitedFor = late(turns, () => undefined);
        written = routes.createOrder(tenantId).catch(() => undefined);
        await waitedFor;
        return {};
      };
      const { status } = await send();
      await written;
      const { orders, events, keys } = await service.database.counts();
      if (orders !== events || keys !== (status === 201 ? 1 : 0)) torn.push({ turns, status, orders, events, keys });
      await service.database.clear();
    }
    expect(torn).toEqual([]);
  });

  it('are whole or not there when it does not wait for its own statements', async () => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const torn: unknown[] = [];
    for (const turns of everyTurn) {
      let written: Promise<unknown> = Promise.resolve();
      routes.work = async ({ tenantId }) => {
        const waitedFor = late(turns, () => undefined);
        const insert = (id: string) => routes.query('INSERT INTO outbox_heads VALUES ($1)', [id]);
        written = insert(tenantId)
          .then(() => insert(uuidv7()))
          .catch(() => undefined);
        await waitedFor;
        return {};
      };
      const { status } = await send();
      await written;
      const heads = await service.database.count('outbox_heads');
      if (![0, 2].includes(heads) || (status !== 201 && heads > 0)) torn.push({ turns, status, heads });
      await service.database.clear();
    }
    expect(torn).toEqual([]);
  });

  it.each([
    ['returned', 201],
    ['refused', 422],
  ])('are not torn by what travels with COMMIT and comes too late, once the handler has %s', async (how, answered) => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const torn: unknown[] = [];
    for (const turns of everyTurn) {
      let outcome = 'none';
      routes.work = async ({ tenantId }) => {
        const { transaction } = routes.unitOfWork;
        const write = { text: 'INSERT INTO outbox_heads VALUES ($1)', values: [tenantId] };
        void late(turns, () => transaction.closeWith(write)).then(
          () => (outcome = 'accepted'),
          () => (outcome = 'refused'),
        );
        await routes.query('SELECT 2');
        if (how === 'refused') throw new UnprocessableEntityException('no');
        return {};
      };
      const { status } = await send();
      const { keys } = await service.database.counts();
      const heads = await service.database.count('outbox_heads');
      // A write that was accepted is there after a success, and no write is there after anything else.
      const isWhole =
        status === 500
          ? heads === 0 && keys === 0
          : keys === 1 && heads === (status === 201 && outcome === 'accepted' ? 1 : 0);
      if (!isWhole || ![answered, 500].includes(status)) torn.push({ turns, status, outcome, keys, heads });
      await service.database.clear();
    }
    expect(torn).toEqual([]);
  });

  it('are not added to by a handler that goes on after its request has failed', async () => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const gate = new Gate();
    let ended: Promise<unknown> = Promise.resolve();
    routes.wrap = (result) =>
      merge(result, from(gate.reached).pipe(mergeMap(() => throwError(() => new Error('late')))));
    routes.work = ({ tenantId }) =>
      (ended = (async () => {
        await routes.createOrder(tenantId);
        const { transaction } = routes.unitOfWork;
        await gate.pass();
        const writes = [
          () => routes.createOrder(tenantId),
          () => routes.query('INSERT INTO outbox_heads VALUES ($1)', [tenantId]),
          () => transaction.manager.save(entity(tenantId)),
          () => transaction.manager.transaction((nested) => nested.save(entity(tenantId))),
        ];
        return Promise.allSettled(writes.map((write) => write()));
      })());
    expect((await service.as().post('/v1/test/wrapped', {}, 'k-1')).status).toBe(500);
    gate.open();
    const outcomes = (await ended) as PromiseSettledResult<unknown>[];
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected', 'rejected']);
    expect(await service.database.counts()).toEqual(NOTHING);
    expect(await service.database.count('outbox_heads')).toBe(0);
  });

  it('a savepoint of the handler undoes its own part only, and the rest is committed', async () => {
    routes.work = async ({ tenantId }) => {
      await routes.createOrder(tenantId);
      await routes.unitOfWork.transaction.manager
        .transaction(async (nested) => {
          await nested.save(entity(tenantId));
          await nested.query('SELECT 1/0');
        })
        .catch(() => undefined);
      return {};
    };
    expect((await send()).status).toBe(201);
    expect(await service.database.counts()).toEqual(ONCE);
  });
});
