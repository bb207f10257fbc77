import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { UnprocessableEntityException } from '@nestjs/common';
import { newOrder } from '../support/api-client.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import { ACME, type TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';
import { expectReplayOf } from './expect-replay-of.js';

let service: TestApp;
let routes: TestRoutes;
beforeAll(async () => ({ service, routes } = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '20s' })));
afterAll(() => service.stop());
beforeEach(async () => {
  routes.reset();
  routes.work = ({ tenantId }) => routes.createOrder(tenantId);
  await service.database.clear();
});

const send = (body: unknown = {}) => service.as().post('/v1/test/work', body, 'k-1');

/** Makes every answer on record past its retention; its row stays. */
const expire = () =>
  service.database.query(
    `UPDATE idempotency_keys SET expires_at = statement_timestamp() - interval '1 ms'
     WHERE status = 'completed'`,
  );

describe('K11, M12: a key past its retention whose row is still there', () => {
  it('is a new execution, under the same row', async () => {
    const first = await send();
    await expire();
    const second = await send();
    expect([second.status, second.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect(second.body.id).not.toBe(first.body.id);
    expectReplayOf(second, await send());
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 1 });
    expect(await service.database.count('idempotency_keys', 'version = 2')).toBe(1);
  });

  it('may be used for another request', async () => {
    await send({ n: 1 });
    await expire();
    expect((await send({ n: 2 })).status).toBe(201);
    expect((await send({ n: 1 })).status).toBe(422);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 1 });
  });

  it('is executed once by many that arrive at once', async () => {
    await send();
    await expire();
    const gate = new Gate();
    routes.work = async ({ tenantId }) => {
      const order = await routes.createOrder(tenantId);
      await gate.pass();
      return order;
    };
    routes.arrivals = 0;
    const requests = Array.from({ length: 10 }, () => send());
    await waitFor(() => routes.arrivals === 10, { description: 'all to be in flight' });
    gate.open();
    const answers = await Promise.all(requests);
    const fresh = answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined);
    expect(fresh).toHaveLength(1);
    for (const answer of answers.filter((one) => one !== fresh[0])) expectReplayOf(fresh[0]!, answer);
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 1 });
  });

  it('keeps its old record when the new execution fails, and has the new one when that is refused', async () => {
    await send();
    await expire();
    const [before] = await service.database.query('SELECT version, response_body, fingerprint FROM idempotency_keys');
    routes.work = () => Promise.reject(new Error('broken'));
    expect((await send()).status).toBe(500);
    expect(await service.database.query('SELECT version, response_body, fingerprint FROM idempotency_keys')).toEqual([
      before,
    ]);

    routes.work = () => Promise.reject(new UnprocessableEntityException('no'));
    const refused = await send();
    expect(refused.status).toBe(422);
    expectReplayOf(refused, await send());
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('is replayed up to its last moment: what counts is the clock of the database', async () => {
    const first = await send();
    const { headers } = first;
    await service.database.query(`UPDATE idempotency_keys SET expires_at = statement_timestamp() + interval '30 s'`);
    const again = await send();
    expect(again.text).toBe(first.text);
    expect(new Date(again.headers['idempotency-expires']!).getTime()).toBeLessThan(
      new Date(headers['idempotency-expires']!).getTime(),
    );
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('never expires while it is unfinished, however old it is', async () => {
    const other = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '0ms' }, { database: service.database });
    try {
      await service.database.query(
        `INSERT INTO idempotency_keys (tenant_id, key, endpoint, status, fingerprint, fingerprint_version, created_at)
         VALUES ($1, 'k-1', 'test.work', 'in_progress', '\\x00', 0, '2020-01-01')`,
        [ACME.tenantId],
      );
      const refused = await other.service.as().post('/v1/test/work', {}, 'k-1');
      expect([refused.status, refused.body.code]).toEqual([409, 'idempotency-key-in-use']);
      expect(other.routes.calls).toBe(0);
      expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
    } finally {
      await other.service.app.close();
    }
  });
});

describe('K12, M12: a retry after the retention', () => {
  it.each([
    ['with its row still there', expire],
    ['with its row removed', remove],
  ])('of an order with an external reference is 409 and names the order (%s)', async (_, forget) => {
    const body = newOrder({ externalRef: 'web-1' });
    const first = await service.as().post('/v1/orders', body, 'k-1');
    await forget();
    const retry = await service.as().post('/v1/orders', body, 'k-1');
    expect([retry.status, retry.body.code]).toEqual([409, 'duplicate-external-ref']);
    expect(retry.body.orderId).toBe(first.body.id);
    expect(retry.headers['idempotent-replayed']).toBeUndefined();
    expectReplayOf(retry, await service.as().post('/v1/orders', body, 'k-1'));
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('of an order without one is a second order: only natural keys protect then', async () => {
    await service.as().post('/v1/orders', newOrder(), 'k-1');
    await expire();
    expect((await service.as().post('/v1/orders', newOrder(), 'k-1')).status).toBe(201);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 1 });
  });
});

describe('M12: IDEMPOTENCY_RETENTION', () => {
  it('is counted from completion, not from the claim', async () => {
    const brief = await startWithTestRoutes({ IDEMPOTENCY_RETENTION: '90s' }, { database: service.database });
    try {
      const gate = new Gate();
      brief.routes.work = () => gate.pass();
      const running = brief.service.as().post('/v1/test/work', {}, 'k-1');
      await gate.reached;
      const [before] = await service.database.query<{ now: Date }>('SELECT clock_timestamp() AS now');
      gate.open();
      const { headers } = await running;
      const expires = new Date(headers['idempotency-expires']!).getTime();
      expect(expires).toBeGreaterThanOrEqual(before!.now.getTime() + 90_000 - 1); // microseconds are cut off
      expect(await service.database.count('idempotency_keys', `expires_at = completed_at + interval '90 s'`)).toBe(1);
      expect(await service.database.count('idempotency_keys', 'completed_at > created_at')).toBe(1);
    } finally {
      await brief.service.app.close();
    }
  });
});

function remove(): Promise<unknown> {
  return service.database.query('DELETE FROM idempotency_keys');
}
