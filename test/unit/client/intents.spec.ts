import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { MemoryIntentStore, type Intent, type IntentStore } from '../../../src/client/index.js';
import { ScriptedServer, sendJson } from '../../support/scripted-server.js';
import { waitFor } from '../../support/wait-for.js';
import { ago, all, created, cut, Harness, inTurn, NEW_ORDER, ORDER, problem, rejection } from './harness.js';

let server: ScriptedServer;
beforeAll(async () => void (server = await ScriptedServer.start()));
afterAll(() => server.stop());
beforeEach(() => void (server.requests.length = 0));

const intent = (different: Partial<Intent> = {}): Intent => ({
  key: 'key-1',
  operation: 'createOrder',
  method: 'POST',
  path: '/v1/orders',
  headers: {},
  body: '{ "currency":"EUR",  "items":[{"unitAmount":4.50e2,"sku":"tea \\u00e9"}] }',
  createdAt: ago(60_000),
  ...different,
});

async function storeOf(...intents: Intent[]): Promise<MemoryIntentStore> {
  const store = new MemoryIntentStore();
  for (const one of intents) await store.put(one);
  return store;
}

describe('an intent', () => {
  it('is stored before the first attempt, with its bytes', async () => {
    const store = new MemoryIntentStore();
    const harness = new Harness(server, {}, store);
    let atFirst: readonly Intent[] = [];
    server.script = (response, request) => {
      void store.list().then(({ intents }) => {
        atFirst = intents;
        created(response, request);
      });
    };

    await harness.client.createOrder(NEW_ORDER, { reference: 'basket 7' });

    expect(atFirst).toEqual([
      {
        key: harness.keys[0],
        operation: 'createOrder',
        method: 'POST',
        path: '/v1/orders',
        headers: {},
        body: server.requests[0]!.body,
        createdAt: ago(0),
        reference: 'basket 7',
      },
    ]);
  });

  it('that cannot be stored is not sent', async () => {
    const store = new MemoryIntentStore();
    store.put = () => Promise.reject(new Error('disk full'));
    await expect(new Harness(server, {}, store).client.createOrder(NEW_ORDER)).rejects.toThrow('disk full');
    expect(server.requests).toEqual([]);
  });

  it('has a key of its own, though the request be the same', async () => {
    inTurn(server, created);
    const harness = new Harness(server);
    await harness.client.createOrder(NEW_ORDER);
    await harness.client.createOrder(NEW_ORDER);
    expect(new Set(harness.keys).size).toBe(2);
  });

  it('is forgotten only after its outcome was written down', async () => {
    inTurn(server, created);
    const harness = new Harness(server, { settle: () => Promise.reject(new Error('no room for it')) });
    await expect(harness.client.createOrder(NEW_ORDER)).rejects.toThrow('no room for it');
    expect(await harness.stored()).toBe(1);
  });

  it('that cannot be forgotten has its outcome all the same', async () => {
    inTurn(server, created);
    const store = new MemoryIntentStore();
    store.delete = () => Promise.reject(new Error('read-only'));
    const told: string[] = [];
    const hooks = { onStoreError: ({ key }: { key: string }) => void told.push(key) };
    const harness = new Harness(server, { hooks }, store);
    expect(await harness.client.createOrder(NEW_ORDER)).toEqual(ORDER);
    expect(told).toEqual(harness.keys);
  });
});

describe("a caller's own key", () => {
  it('goes on with what is stored under it', async () => {
    inTurn(server, cut, created);
    const harness = new Harness(server, { maxAttempts: 1 });
    await rejection(harness.client.createOrder(NEW_ORDER, { key: 'mine' }));
    expect(await harness.client.createOrder(NEW_ORDER, { key: 'mine' })).toEqual(ORDER);
    expect(harness.keys).toEqual(['mine', 'mine']);
    expect(await harness.stored()).toBe(0);
  });

  it('is refused for another request while the first is stored, and while it is being sent', async () => {
    inTurn(server, cut);
    const harness = new Harness(server, { maxAttempts: 1 });
    const first = harness.client.createOrder(NEW_ORDER, { key: 'mine' });
    expect(await rejection(harness.client.createOrder(NEW_ORDER, { key: 'mine' }))).toMatchObject({ kind: 'conflict' });
    await rejection(first);
    const other = harness.client.createOrder({ ...NEW_ORDER, currency: 'CHF' }, { key: 'mine' });
    expect(await rejection(other)).toMatchObject({ kind: 'conflict', key: 'mine' });
    expect(server.requests).toHaveLength(1);
  });

  it('is not sent past the retention, when it is known how old it is', async () => {
    const options = { key: 'mine', keyMadeAt: new Date(ago(24 * 3_600_000)) };
    const harness = new Harness(server);
    expect(await rejection(harness.client.createOrder(NEW_ORDER, options))).toMatchObject({ kind: 'retention-passed' });
    expect(server.requests).toEqual([]);
  });

  it.each(['', 'a b', 'a"b', 'é', 'a\n', 'x'.repeat(256)])('is refused when it is none: %j', async (key) => {
    const harness = new Harness(server);
    await expect(harness.client.createOrder(NEW_ORDER, { key })).rejects.toThrow(TypeError);
    expect(await harness.stored()).toBe(0);
  });
});

describe('resuming', () => {
  it('sends the stored bytes under the stored key, and forgets the intent after its outcome was taken', async () => {
    inTurn(server, created);
    const stored = intent({
      reference: 'basket 7',
      operation: 'updateOrder',
      method: 'PATCH',
      headers: { 'If-Match': '"4"' },
    });
    server.script = (response) => sendJson(response, 200, ORDER);
    const harness = new Harness(server, {}, await storeOf(stored));

    const outcomes = harness.client.resume();
    expect((await outcomes.next()).value).toEqual({
      status: 'succeeded',
      operation: 'updateOrder',
      intent: stored,
      value: ORDER,
    });
    expect(await harness.stored()).toBe(1);
    expect((await outcomes.next()).done).toBe(true);

    expect(await harness.stored()).toBe(0);
    expect(server.requests).toMatchObject([
      { method: 'PATCH', body: stored.body, headers: { 'idempotency-key': 'key-1', 'if-match': '"4"' } },
    ]);
  });

  it('gives every outcome, and keeps what has none', async () => {
    server.script = (response, request) => {
      const key = request.headers['idempotency-key'] as string;
      if (key === 'good') return created(response, request);
      return (key === 'bad' ? problem(402, 'payment-declined') : problem(500, 'internal-error'))(response, request);
    };
    const intents = ['good', 'bad', 'stuck'].map((key) => intent({ key }));
    const old = intent({ key: 'old', createdAt: ago(25 * 3_600_000) });
    const harness = new Harness(server, { maxAttempts: 2 }, await storeOf(...intents, old));

    const outcomes = (await all(harness.client.resume())) as { status: string; intent: Intent }[];

    expect(Object.fromEntries(outcomes.map(({ status, intent: { key } }) => [key, status]))).toEqual({
      good: 'succeeded',
      bad: 'refused',
      stuck: 'unfinished',
      old: 'expired',
    });
    expect((await harness.store.list()).intents.map(({ key }) => key).sort()).toEqual(['old', 'stuck']);
    expect(harness.keys).not.toContain('old');

    await harness.client.discard('old');
    expect((await harness.store.list()).intents.map(({ key }) => key)).toEqual(['stuck']);
  });

  it('takes a refusal before the key for no outcome: an earlier process may have sent it', async () => {
    inTurn(server, problem(401, 'unauthenticated'));
    const harness = new Harness(server, {}, await storeOf(intent()));
    expect(await all(harness.client.resume())).toMatchObject([{ status: 'unfinished', error: { kind: 'unknown' } }]);
    expect(await harness.stored()).toBe(1);
  });

  it('tells what is damaged', async () => {
    const damaged = { source: 'row 7', reason: 'torn' };
    const store: IntentStore = Object.assign(new MemoryIntentStore(), {
      list: async () => ({ intents: [], damaged: [damaged] }),
    });
    expect(await all(new Harness(server, {}, store).client.resume())).toEqual([{ status: 'damaged', damaged }]);
  });

  it('leaves alone what is being sent', async () => {
    const held: (() => void)[] = [];
    server.script = (response, request) => void held.push(() => created(response, request));
    const intents = Array.from({ length: 9 }, (_, n) => intent({ key: `key-${n}` }));
    const { client, store } = new Harness(server, {}, await storeOf(...intents));
    const first = all(client.resume({ concurrency: 9 }));
    await waitFor(() => server.requests.length === 9, { description: 'all to be sent' });

    expect(await all(client.resume())).toEqual([]);
    expect(await rejection(client.createOrder(NEW_ORDER, { key: 'key-0' }))).toMatchObject({ kind: 'conflict' });
    expect(await rejection(client.discard('key-0'))).toMatchObject({ kind: 'conflict' });

    for (const answer of held) answer();
    expect(await first).toHaveLength(9);
    expect(server.requests).toHaveLength(9);
    expect((await store.list()).intents).toEqual([]);
  });

  it('keeps to the concurrency', async () => {
    let atOnce = 0;
    let most = 0;
    server.script = (response, request) => {
      most = Math.max(most, ++atOnce);
      setTimeout(() => void ((atOnce -= 1), created(response, request)), 10);
    };
    const intents = Array.from({ length: 9 }, (_, n) => intent({ key: `key-${n}` }));
    await all(new Harness(server, {}, await storeOf(...intents)).client.resume({ concurrency: 3 }));
    expect(most).toBe(3);
  });

  it('keeps the rest, and what was last taken, when the caller stops', async () => {
    inTurn(server, created);
    const harness = new Harness(server, {}, await storeOf(...['a', 'b', 'c'].map((key) => intent({ key }))));
    for await (const _ of harness.client.resume({ concurrency: 1 })) break;
    expect(await harness.stored()).toBe(3);
    expect(await all(harness.client.resume())).toHaveLength(3);
    expect(await harness.stored()).toBe(0);
  });
});

describe('aborting', () => {
  it('before the first attempt sends nothing, and keeps the intent', async () => {
    const harness = new Harness(server);
    const error = await rejection(harness.client.createOrder(NEW_ORDER, { signal: AbortSignal.abort('enough') }));
    expect(error).toMatchObject({ name: 'AbortError', kind: 'aborted', mayHaveHappened: false, cause: 'enough' });
    expect(server.requests).toEqual([]);
    expect(await harness.stored()).toBe(1);
  });

  it('during an attempt ends it at once, and keeps the intent', async () => {
    const controller = new AbortController();
    server.script = () => controller.abort();
    const harness = new Harness(server);
    const error = await rejection(harness.client.createOrder(NEW_ORDER, { signal: controller.signal }));
    expect(error).toMatchObject({ kind: 'aborted', mayHaveHappened: true, attempts: 1 });
    expect(await harness.stored()).toBe(1);

    inTurn(server, created);
    expect(await all(harness.client.resume())).toMatchObject([{ status: 'succeeded' }]);
    expect(new Set(harness.keys).size).toBe(1);
  });

  it('during a wait ends it at once', async () => {
    const controller = new AbortController();
    inTurn(server, problem(503, 'service-unavailable', { 'Retry-After': '30' }));
    const onRetry = () => void setTimeout(() => controller.abort(), 10);
    const harness = new Harness(server, { hooks: { onRetry }, sleep: undefined });
    const started = performance.now();
    const error = await rejection(harness.client.createOrder(NEW_ORDER, { signal: controller.signal }));
    expect(error).toMatchObject({ kind: 'aborted', mayHaveHappened: false, attempts: 1 });
    expect(performance.now() - started).toBeLessThan(10_000);
  });

  it('of resuming keeps what is under way', async () => {
    const controller = new AbortController();
    server.script = () => controller.abort();
    const harness = new Harness(server, {}, await storeOf(intent({ key: 'a' }), intent({ key: 'b' })));
    const outcomes = await all(harness.client.resume({ signal: controller.signal, concurrency: 1 }));
    expect(outcomes).toMatchObject([{ status: 'unfinished' }, { status: 'unfinished' }]);
    expect(await harness.stored()).toBe(2);
  });
});
