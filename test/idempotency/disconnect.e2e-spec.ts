import { type ClientRequest, request } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, NotFoundException, UnprocessableEntityException } from '@nestjs/common';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import { ACME, type TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';

const ONCE = { orders: 1, events: 1, keys: 1 };

describe('K8, M37: a client that goes away before it is answered', () => {
  let service: TestApp;
  let routes: TestRoutes;
  let gate: Gate;
  beforeAll(async () => ({ service, routes } = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '20s' })));
  afterAll(() => service.stop());
  beforeEach(async () => {
    routes.reset();
    gate = new Gate();
    routes.work = async ({ tenantId }) => {
      await gate.pass();
      return routes.createOrder(tenantId);
    };
    await service.database.clear();
  });
  afterEach(() => void jest.restoreAllMocks());

  /** Sends the request and leaves it to the test to tear the connection. */
  function sendOff(): ClientRequest {
    const outgoing = request(new URL('/v1/test/work', service.baseUrl), {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${ACME.key}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': 'k-1',
      },
    });
    outgoing.on('error', () => undefined).end('{}');
    return outgoing;
  }

  /** Tears the connection, and resolves when the service has noticed. */
  async function leave(outgoing: ClientRequest): Promise<void> {
    const before = await connections();
    outgoing.destroy();
    await waitFor(async () => (await connections()) < before, { description: 'the service to see the client leave' });
  }

  function connections(): Promise<number> {
    return new Promise((resolve, reject) => {
      service.app.getHttpServer().getConnections((error: Error | null, count: number) => {
        if (error) reject(error);
        else resolve(count);
      });
    });
  }

  const recorded = () =>
    waitFor(async () => (await service.database.counts()).keys === 1, { description: 'the answer to be recorded' });
  const retry = () => service.as().post('/v1/test/work', {}, 'k-1');

  it('its request is carried out all the same, once, and its retry gets the answer', async () => {
    const warned = [jest.spyOn(Logger.prototype, 'error'), jest.spyOn(Logger.prototype, 'warn')];
    const outgoing = sendOff();
    await gate.reached;
    await leave(outgoing);
    gate.open();
    await recorded();

    const answer = await retry();
    expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect((await service.as().get(`/v1/orders/${answer.body.id}`)).status).toBe(200);
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual(ONCE);
    expect(warned.flatMap((spy) => spy.mock.calls)).toEqual([]);
  });

  it('a retry that comes while the first is still being carried out waits for it', async () => {
    const outgoing = sendOff();
    await gate.reached;
    await leave(outgoing);
    const retried = retry();
    await waitFor(() => routes.arrivals === 2, { description: 'the retry to arrive' });
    gate.open();
    const answer = await retried;
    expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('goes away while it waits as a duplicate: nobody else notices', async () => {
    const first = retry();
    await gate.reached;
    const outgoing = sendOff();
    await waitFor(() => routes.arrivals === 2, { description: 'the duplicate to arrive' });
    await leave(outgoing);
    gate.open();
    expect((await first).status).toBe(201);
    expect((await retry()).headers['idempotent-replayed']).toBe('true');
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('goes away as a duplicate, and becomes the one that does the work: it does it all the same', async () => {
    routes.work = async ({ tenantId, number }) => {
      await gate.pass();
      if (number === 1) throw new NotFoundException('not yet');
      return routes.createOrder(tenantId);
    };
    const first = retry();
    await gate.reached;
    const outgoing = sendOff();
    await waitFor(() => routes.arrivals === 2, { description: 'the duplicate to arrive' });
    await leave(outgoing);
    gate.open();
    expect((await first).status).toBe(404);
    await recorded();
    expect((await retry()).headers['idempotent-replayed']).toBe('true');
    expect(routes.calls).toBe(2);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('a refusal that it never saw is replayed', async () => {
    routes.work = async ({ tenantId }) => {
      await routes.createOrder(tenantId);
      await gate.pass();
      throw new UnprocessableEntityException('no');
    };
    const outgoing = sendOff();
    await gate.reached;
    await leave(outgoing);
    gate.open();
    await recorded();
    const answer = await retry();
    expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([422, 'true']);
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });
});
