import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';
import { expectReplayOf } from './expect-replay-of.js';

const NOTHING = { orders: 0, events: 0, keys: 0 };
const ONCE = { orders: 1, events: 1, keys: 1 };

let service: TestApp;
let routes: TestRoutes;
let warned: jest.SpiedFunction<Logger['warn']>;
beforeAll(async () => ({ service, routes } = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '20s' })));
afterAll(() => service.stop());
beforeEach(async () => {
  routes.reset();
  await service.database.clear();
  warned = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
});
afterEach(() => void jest.restoreAllMocks());

const send = (key = 'k-1', body: unknown = {}) => service.as().post('/v1/test/work', body, key);
const raise = (state: string) =>
  routes.query(`DO $$ BEGIN RAISE EXCEPTION 'raised by the test' USING ERRCODE = '${state}'; END $$`);

describe('M2, M10: a handler that the database chose as the victim of a conflict', () => {
  it.each(['40001', '40P01'])('is run again from the claim on (%s once): one effect, one answer', async (state) => {
    routes.work = async ({ tenantId, number, response }) => {
      response.set('Location', `/attempt/${number}`);
      if (number === 1) response.status(299).set('ETag', '"1"');
      const order = await routes.createOrder(tenantId);
      if (number === 1) await raise(state);
      return order;
    };
    const first = await send();
    expect([first.status, first.headers.location, first.headers.etag]).toEqual([201, '/attempt/2', undefined]);
    expectReplayOf(first, await send());
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('is run again when the conflict shows at COMMIT only', async () => {
    await service.database.query(`
      CREATE FUNCTION refuse_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('refusals') = 1 THEN RAISE EXCEPTION 'at commit' USING ERRCODE = '40001'; END IF; RETURN NULL;
      END $$;
      CREATE SEQUENCE refusals;
      CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION refuse_once()`);
    try {
      routes.work = ({ tenantId }) => routes.createOrder(tenantId);
      const first = await send();
      expect(first.status).toBe(201);
      expectReplayOf(first, await send());
      expect(routes.calls).toBe(2);
      expect(await service.database.counts()).toEqual(ONCE);
    } finally {
      await service.database.query('DROP FUNCTION refuse_once CASCADE; DROP SEQUENCE refusals');
    }
  });

  it.each(['40001', '40P01'])(
    'always (%s): a bounded number of times, then 503, and the key is free',
    async (state) => {
      routes.work = async ({ tenantId }) => {
        await routes.createOrder(tenantId);
        await raise(state);
      };
      const refused = await send();
      expect([refused.status, refused.body.code]).toEqual([503, 'service-unavailable']);
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
      expect(routes.calls).toBeGreaterThan(1);
      expect(routes.calls).toBeLessThan(10);
      expect(warned).toHaveBeenCalled();
      expect(await service.database.counts()).toEqual(NOTHING);

      routes.work = ({ tenantId }) => routes.createOrder(tenantId);
      const retry = await send();
      expect([retry.status, retry.headers['idempotent-replayed']]).toEqual([201, undefined]);
      expect(await service.database.counts()).toEqual(ONCE);
    },
  );

  it('a refusal after a conflict is stored like any other', async () => {
    const { UnprocessableEntityException } = await import('@nestjs/common');
    routes.work = async ({ tenantId, number }) => {
      await routes.createOrder(tenantId);
      if (number === 1) await raise('40001');
      throw new UnprocessableEntityException('no');
    };
    const first = await send();
    expect(first.status).toBe(422);
    expectReplayOf(first, await send());
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual({ ...NOTHING, keys: 1 });
  });

  it('two requests that really deadlock both succeed, each with one effect', async () => {
    const ids = ['a', 'b'].map(async (sku) => {
      const { body } = await service.as().post('/v1/orders', { currency: 'EUR', items: [{ sku, unitAmount: 1 }] });
      return body.id as string;
    });
    const [a, b] = await Promise.all(ids);
    const both = [new Gate(), new Gate()];
    routes.work = async ({ tenantId, body }) => {
      const mine = (body as { n: number }).n;
      const lock = (id: string | undefined) => routes.query('SELECT 1 FROM orders WHERE id = $1 FOR UPDATE', [id]);
      await lock(mine === 0 ? a : b);
      void both[mine]!.pass();
      await both[1 - mine]!.reached;
      await lock(mine === 0 ? b : a);
      return routes.createOrder(tenantId);
    };
    const answers = await Promise.all([send('k-0', { n: 0 }), send('k-1', { n: 1 })]);
    expect(answers.map(({ status }) => status)).toEqual([201, 201]);
    expect(routes.calls).toBe(3);
    expect(await service.database.counts()).toEqual({ orders: 4, events: 4, keys: 4 });
  });
});

describe('M9, M10: a lock that the handler itself waits for', () => {
  it('in vain is 503 and not "in use": the key is free', async () => {
    const holder = await service.database.connect();
    try {
      const { body } = await service
        .as()
        .post('/v1/orders', { currency: 'EUR', items: [{ sku: 'a', unitAmount: 1 }] }, 'k-0');
      await holder.query('BEGIN');
      await holder.query('SELECT 1 FROM orders FOR UPDATE');
      routes.work = async ({ tenantId }) => {
        await routes.createOrder(tenantId);
        await routes.query(`SET LOCAL lock_timeout = 50`);
        return routes.query('SELECT id FROM orders WHERE id = $1 FOR UPDATE', [body.id]);
      };
      const refused = await send();
      expect([refused.status, refused.body.code]).toEqual([503, 'service-unavailable']);
      expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
      expect(routes.calls).toBe(1);
      expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });

      await holder.query('ROLLBACK');
      const retry = await send();
      expect([retry.status, retry.headers['idempotent-replayed']]).toEqual([201, undefined]);
      expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 2 });
    } finally {
      await holder.end();
    }
  });

  it.each([
    ['55P03', 'lock_not_available'],
    ['57014', 'query_canceled, the statement timeout'],
    ['53100', 'disk_full'],
    ['25006', 'read_only_sql_transaction'],
  ])('%s (%s) is 503 with Retry-After: nothing is stored, a retry runs', async (state) => {
    routes.work = async ({ tenantId, number }) => {
      const order = await routes.createOrder(tenantId);
      if (number === 1) await raise(state);
      return order;
    };
    const refused = await send();
    expect([refused.status, refused.body.code]).toEqual([503, 'service-unavailable']);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(refused.text).not.toContain('raised by the test');
    expect(await service.database.counts()).toEqual(NOTHING);
    expect((await send()).status).toBe(201);
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('does not count against the wait of its duplicates: they get its answer', async () => {
    const gate = new Gate();
    routes.work = async ({ tenantId, number }) => {
      const order = await routes.createOrder(tenantId);
      if (number > 1) return order;
      await gate.pass();
      return raise('55P03');
    };
    const first = send();
    await gate.reached;
    const duplicate = send();
    gate.open();
    expect((await first).status).toBe(503);
    expect((await duplicate).status).toBe(201);
    expect(await service.database.counts()).toEqual(ONCE);
  });
});
