import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ScriptedServer, type Script, sendJson } from '../../support/scripted-server.js';
import { created, cut, Harness, inTurn, NEW_ORDER, ORDER, problem, rejection } from './harness.js';

let server: ScriptedServer;
beforeAll(async () => void (server = await ScriptedServer.start()));
afterAll(() => server.stop());
beforeEach(() => void (server.requests.length = 0)); // not its connections: one that is closed under a request is a failure

const silence: Script = () => undefined;
const truncated: Script = (response) => {
  response.writeHead(201, { 'Content-Type': 'application/json', 'Content-Length': '500' });
  response.write('{"id":', () => response.socket?.resetAndDestroy());
};
const endless: Script = (response) => {
  response.writeHead(201, { 'Content-Type': 'application/json' });
  const more = () => void (response.destroyed || response.write('x'.repeat(10_000), () => setImmediate(more)));
  more();
};
const text =
  (status: number, body: string | Buffer, type = 'application/json', headers = {}): Script =>
  (response) =>
    void response.writeHead(status, { 'Content-Type': type, ...headers }).end(body);
const complete = JSON.stringify(ORDER);

// [what comes first, the script, whether it may have happened]
const PASSING: [string, Script, boolean][] = [
  ['a reset after the request', cut, true],
  ['no answer in time', silence, true],
  ['half a body', truncated, true],
  ['a body without end', endless, true],
  ['a success that is not JSON', text(201, '{"id": "01a2'), true],
  ['a success that is no UTF-8', text(201, Buffer.from(complete.replace('tea', '\u00ff'), 'latin1')), true],
  ['a success that is too long', text(201, complete + ' '.repeat(200_000)), true],
  ['a success of another type', text(201, complete, 'text/html'), true],
  ['a success that is no order', text(201, '{"ok":true}'), true],
  ['a success that is a list', text(201, `[${complete}]`), true],
  ['a success with another status', text(200, complete), true],
  ['an empty success', text(204, ''), true],
  ['a permanent redirect', text(308, '', 'text/html', { Location: '/v1/orders' }), true],
  ['a redirect to a page', text(302, '', 'text/html', { Location: '/login' }), true],
  ["a proxy's 502 page", text(502, '<html>', 'text/html'), true],
  ["a proxy's 404 page", text(404, '<html>', 'text/html'), true],
  ["a proxy's 403 in JSON", text(403, '{"message":"no"}'), true],
  [
    'a problem that says another status',
    text(409, '{"status":404,"code":"not-found"}', 'application/problem+json'),
    true,
  ],
  ['408', problem(408, 'request-timeout'), true],
  ['425', problem(425, 'too-early'), false],
  ['429', problem(429, 'rate-limited'), false],
  ['500', problem(500, 'internal-error'), true],
  ['503 service-unavailable', problem(503, 'service-unavailable'), false],
  ['503 outcome-unknown', problem(503, 'outcome-unknown'), true],
  ['503 payment-outcome-unknown', problem(503, 'payment-outcome-unknown'), true],
  ['409 idempotency-key-in-use', problem(409, 'idempotency-key-in-use'), true],
  ['409 payment-in-progress', problem(409, 'payment-in-progress'), false],
];
const BOUNDS = { attemptTimeoutMs: 500, maxBodyBytes: 100_000 };

describe('what may pass', () => {
  it.each(PASSING)('is tried again under the same key with the same bytes: %s', async (_, first) => {
    inTurn(server, first, created);
    const harness = new Harness(server, BOUNDS);

    expect(await harness.client.createOrder(NEW_ORDER)).toEqual(ORDER);

    expect(server.requests).toHaveLength(2);
    expect(harness.keys[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(harness.keys[1]).toBe(harness.keys[0]);
    expect(server.requests[1]!.body).toBe(server.requests[0]!.body);
    expect(await harness.stored()).toBe(0);
  });

  it.each(PASSING)(
    'and when it does not, says whether it may have happened, and keeps the intent: %s',
    async (_, always, may) => {
      inTurn(server, always);
      const harness = new Harness(server, { ...BOUNDS, maxAttempts: 2 });

      const error = await rejection(harness.client.createOrder(NEW_ORDER));

      expect(error).toMatchObject({ kind: may ? 'unknown' : 'exhausted', attempts: 2, key: harness.keys[0] });
      expect(server.requests).toHaveLength(2);
      expect(await harness.stored()).toBe(1);
      expect(harness.settled).toEqual([]);
    },
  );

  it('stays unknown once it was, whatever comes after', async () => {
    inTurn(server, cut, problem(503, 'service-unavailable'));
    const harness = new Harness(server, { maxAttempts: 3 });
    expect(await rejection(harness.client.createOrder(NEW_ORDER))).toMatchObject({ kind: 'unknown', attempts: 3 });
  });

  it('has not happened when nobody listens', async () => {
    const gone = await ScriptedServer.start();
    const harness = new Harness(gone, { maxAttempts: 3 });
    await gone.stop();
    expect(await rejection(harness.client.createOrder(NEW_ORDER))).toMatchObject({ kind: 'exhausted', attempts: 3 });
  });
});

describe('a refusal of the service', () => {
  it.each([
    [400, 'validation-failed'],
    [402, 'payment-declined'],
    [404, 'not-found'],
    [401, 'unauthenticated'],
    [409, 'duplicate-external-ref'],
    [410, 'order-deleted'],
    [412, 'precondition-failed'],
    [422, 'idempotency-key-reused'],
    [428, 'precondition-required'],
  ])('is final: %i %s', async (status, code) => {
    inTurn(server, problem(status, code));
    const harness = new Harness(server);

    const error = await rejection(harness.client.createOrder(NEW_ORDER));

    expect(error).toMatchObject({ name: 'RefusedError', kind: 'refused', status, code, attempts: 1 });
    expect(error.problem).toMatchObject({ detail: 'So it is.' });
    expect(server.requests).toHaveLength(1);
    expect(harness.settled).toMatchObject([{ status: 'refused' }]);
    expect(await harness.stored()).toBe(0);
  });

  it.each([
    [401, 'unauthenticated'],
    [403, 'forbidden'],
    [404, 'not-found'],
    [413, 'payload-too-large'],
    [400, 'idempotency-key-invalid'],
  ])('that comes before the key is looked at says nothing about an earlier attempt: %i %s', async (status, code) => {
    inTurn(server, cut, problem(status, code));
    const harness = new Harness(server);

    const error = await rejection(harness.client.createOrder(NEW_ORDER));

    expect(error).toMatchObject({ kind: 'unknown', attempts: 2, problem: { code } });
    expect(await harness.stored()).toBe(1);
  });

  it('that comes after it is final for earlier attempts too', async () => {
    inTurn(server, cut, problem(402, 'payment-declined'));
    const harness = new Harness(server);
    expect(await rejection(harness.client.payOrder(ORDER.id, { method: 'card' }))).toMatchObject({ kind: 'refused' });
    expect(await harness.stored()).toBe(0);
  });
});

describe('redirects', () => {
  it('are not followed', async () => {
    inTurn(server, text(307, '', 'text/html', { Location: '/elsewhere' }));
    await rejection(new Harness(server, { maxAttempts: 1 }).client.createOrder(NEW_ORDER));
    expect(server.requests.map(({ path }) => path)).toEqual(['/v1/orders']);
  });
});

describe('calls without a key', () => {
  it('are repeated where they are safe to repeat', async () => {
    const { client } = new Harness(server);
    inTurn(server, cut, (response) => sendJson(response, 200, ORDER));
    await client.putOrder(ORDER.id, NEW_ORDER);
    inTurn(server, cut, (response) => sendJson(response, 200, ORDER));
    await client.updateOrder(ORDER.id, { metadata: {} }, { version: 1 });
    inTurn(server, cut, (response) => sendJson(response, 200, ORDER));
    await client.getOrder(ORDER.id);
    expect(server.requests.map(({ method }) => method)).toEqual(['PUT', 'PUT', 'PATCH', 'PATCH', 'GET', 'GET']);
    expect(server.requests[2]!.headers['if-match']).toBe('"1"');
    expect(server.requests.every(({ headers }) => headers['idempotency-key'] === undefined)).toBe(true);
  });

  it.each(['POST', 'PATCH'])('are sent once where they are not: %s', async (method) => {
    inTurn(server, cut);
    const error = await rejection(new Harness(server).client.request(method, '/v1/coupons', { body: {} }));
    expect(error).toMatchObject({ kind: 'unknown', attempts: 1, key: undefined });
    expect(server.requests).toHaveLength(1);
  });

  it('never repeat a 412, and say that it may be the answer to their own change', async () => {
    inTurn(server, cut, problem(412, 'precondition-failed'));
    const update = new Harness(server).client.updateOrder(ORDER.id, { metadata: {} }, { version: 1 });
    expect(await rejection(update)).toMatchObject({ status: 412, mayHaveHappenedBefore: true, attempts: 2 });
  });

  it('go nowhere else by their path', async () => {
    const { client } = new Harness(server);
    await expect(client.request('GET', '@elsewhere.example/')).rejects.toThrow(TypeError);
    await expect(client.request('POST', '.example/', { keyed: true })).rejects.toThrow(TypeError);
  });

  it('of reading have nothing that may have happened', async () => {
    inTurn(server, cut);
    const get = new Harness(server, { maxAttempts: 2 }).client.getOrder(ORDER.id);
    expect(await rejection(get)).toMatchObject({ kind: 'exhausted' });
  });

  it('of deleting are done when a repeat finds nothing, and refused when the first does', async () => {
    const { client } = new Harness(server);
    inTurn(server, cut, problem(404, 'not-found'));
    await expect(client.deleteOrder(ORDER.id)).resolves.toBeUndefined();
    inTurn(server, problem(404, 'not-found'));
    expect(await rejection(client.deleteOrder(ORDER.id))).toMatchObject({ code: 'not-found' });
    inTurn(server, (response) => response.writeHead(204).end());
    await expect(client.deleteOrder(ORDER.id)).resolves.toBeUndefined();
  });
});
