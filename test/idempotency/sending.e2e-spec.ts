import { Readable } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type Call, Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';
import { expectReplayOf } from './expect-replay-of.js';

const NOTHING = { orders: 0, events: 0, keys: 0 };
const ONCE = { orders: 1, events: 1, keys: 1 };

describe('K10: a handler that sends its answer itself, which cannot be seen at boot,', () => {
  let service: TestApp;
  let routes: TestRoutes;
  let gate: Gate;
  beforeAll(async () => ({ service, routes } = await startWithTestRoutes({ IDEMPOTENCY_WAIT: '0ms' })));
  afterAll(() => service.stop());
  beforeEach(async () => {
    routes.reset();
    gate = new Gate();
    await service.database.clear();
  });

  const send = () => service.as().post('/v1/test/work', {}, 'k-1');

  /** What the client is left with: an answer, a connection that was cut, or nothing for three seconds. */
  async function outcome(): Promise<number | 'cut' | 'no answer'> {
    let answer: number | 'cut' | undefined;
    void send().then(
      ({ status }) => (answer = status),
      () => (answer = 'cut'),
    );
    return waitFor(() => answer, { timeoutMs: 3_000 }).then(
      (arrived) => arrived,
      () => 'no answer',
    );
  }

  const expectFreed = async (): Promise<void> => {
    expect(await service.database.counts()).toEqual(NOTHING);
    routes.work = ({ tenantId }) => routes.createOrder(tenantId);
    const retry = await send();
    expect([retry.status, retry.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect(await service.database.counts()).toEqual(ONCE);
  };

  it.each<[string, (call: Call) => unknown]>([
    ['the whole of it', ({ response }) => void response.status(201).json({ id: 7 })],
    ['an empty one', ({ response }) => void response.status(201).end()],
    ['its headers', ({ response }) => response.status(201).flushHeaders()],
    ['a part of the body', ({ response }) => void response.status(201).write('part')],
    [
      'the whole of it, a moment later',
      async ({ response }) => {
        await routes.query('SELECT 1');
        response.status(201).json({ id: 7 });
      },
    ],
    [
      'a stream, and waits for its end',
      ({ response }) => {
        const finished = new Promise<void>((resolve) => Readable.from(['piped']).pipe(response).on('finish', resolve));
        return Promise.race([finished, gate.pass()]);
      },
    ],
  ])('%s, never looks like a success: 500, rolled back, the key is free', async (_, answer) => {
    routes.work = async (call) => {
      await routes.createOrder(call.tenantId);
      return answer(call);
    };
    try {
      // Cutting the connection is as good as a 500: the client knows that it has no answer.
      expect([500, 'cut']).toContain(await outcome());
    } finally {
      gate.open();
    }
    await expectFreed();
  });

  it.each<[string, (call: Call) => unknown]>([
    ['pipes a stream into the response and returns', ({ response }) => void Readable.from(['piped']).pipe(response)],
    [
      'answers when it has returned',
      ({ response }) => void setImmediate(() => response.status(201).json({ late: true })),
    ],
    [
      'answers while its transaction commits',
      ({ response }) => {
        routes.unitOfWork.transaction.closeWith({ text: 'SELECT pg_sleep(0.2)' });
        setTimeout(() => response.status(201).json({ late: true }), 50);
      },
    ],
  ])('and only %s: what the client sees is what is replayed, or nothing at all', async (_, answer) => {
    routes.work = async (call) => {
      await routes.createOrder(call.tenantId);
      return answer(call);
    };
    const first = await send().catch(() => undefined);
    if (first && first.status >= 400) return expectFreed();
    const retry = await waitFor(async () => {
      const again = await send();
      return again.body?.code === 'idempotency-key-in-use' ? undefined : again;
    });
    expect(retry.status).toBe(201);
    if (first) expectReplayOf(first, retry);
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual(ONCE);
  });
});
