import { Readable } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { StreamableFile } from '@nestjs/common';
import { catchError, from, map, of } from 'rxjs';
import { Problem } from '../../src/http/problem.js';
import { DuplicateExternalRef } from '../../src/orders/order.problems.js';
import type { ApiResponse } from '../support/api-client.js';
import { type Call, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';
import { expectReplayOf } from './expect-replay-of.js';

let service: TestApp;
let routes: TestRoutes;
beforeAll(async () => ({ service, routes } = await startWithTestRoutes()));
afterAll(() => service.stop());
beforeEach(async () => {
  routes.reset();
  await service.database.clear();
});

/** Lets the handler create an order and answer so, then sends the request twice. */
async function twice(answer: (call: Call) => unknown, path = '/v1/test/work'): Promise<[ApiResponse, ApiResponse]> {
  routes.work = async (call) => {
    await routes.createOrder(call.tenantId);
    return answer(call);
  };
  const first = await service.as().post(path, {}, 'k-1');
  const again = await service.as().post(path, {}, 'k-1');
  return [first, again];
}

describe('K10, M3: whatever a handler returns is replayed byte for byte', () => {
  const expectOnce = async (): Promise<void> => {
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  };

  it.each<[string, unknown, string]>([
    ['a NUL in a string', { text: 'a\u0000b' }, '{"text":"a\\u0000b"}'],
    ['emoji', { text: '🫖👩‍🚀' }, '{"text":"🫖👩‍🚀"}'],
    ['a lone surrogate', { text: '\ud800' }, '{"text":"\\ud800"}'],
    ['numbers as they are written', { n: [1.1, 1e21, -0, 0.1 + 0.2] }, '{"n":[1.1,1e+21,0,0.30000000000000004]}'],
    ['member order', { b: 1, a: { d: 1, c: 2 } }, '{"b":1,"a":{"d":1,"c":2}}'],
    ['dates', { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    ['a list', [1, null], '[1,null]'],
    ['an empty object', {}, '{}'],
  ])('JSON with %s', async (_, result, text) => {
    const [first, again] = await twice(() => result);
    expect([first.status, first.text]).toEqual([201, text]);
    expect(first.headers['content-type']).toBe('application/json; charset=utf-8');
    expectReplayOf(first, again);
    await expectOnce();
  });

  it.each<[string, unknown, string]>([
    ['text', 'tea ☕', 'tea ☕'],
    ['a number', 42, '42'],
    ['a boolean', false, 'false'],
  ])('plain %s', async (_, result, text) => {
    const [first, again] = await twice(() => result);
    expect([first.status, first.text]).toEqual([201, text]);
    expect(first.headers['content-type']).toBe('text/html; charset=utf-8'); // what Nest makes of it
    expectReplayOf(first, again);
    await expectOnce();
  });

  it.each([undefined, null, ''])('an empty 201 (%p)', async (result) => {
    const [first, again] = await twice(() => result);
    expect([first.status, first.bytes.length]).toEqual([201, 0]);
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('a large body', async () => {
    const text = 'ä'.repeat(1_000_000);
    const [first, again] = await twice(() => ({ text }));
    expect(first.body.text).toBe(text);
    expect(first.headers['content-length']).toBe(String(first.bytes.length));
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('202 with Location and ETag', async () => {
    const [first, again] = await twice(({ response }) => {
      response.set({ Location: '/v1/jobs/7?x=%C3%A4', ETag: '"7"' });
      return { accepted: true };
    }, '/v1/test/accepted');
    expect([first.status, first.headers.location, first.headers.etag]).toEqual([202, '/v1/jobs/7?x=%C3%A4', '"7"']);
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('a status and a media type that the handler has set', async () => {
    const [first, again] = await twice(({ response }) => {
      response.status(207).type('application/vnd.orders+json');
      return { done: 1 };
    });
    expect([first.status, first.text]).toEqual([207, '{"done":1}']);
    expect(first.headers['content-type']).toMatch(/^application\/vnd\.orders\+json/);
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('a media type that the route declares', async () => {
    const [first, again] = await twice(() => 'a;b\n1;2\n', '/v1/test/csv');
    expect([first.headers['content-type'], first.text]).toEqual(['text/csv; charset=utf-8', 'a;b\n1;2\n']);
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('204', async () => {
    const [first, again] = await twice(() => undefined, '/v1/test/no-content');
    expect([first.status, first.bytes.length, first.headers['content-type']]).toEqual([204, 0, undefined]);
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('204 of a handler that returns something: neither body nor Content-Length (RFC 9110, section 8.6)', async () => {
    const [first, again] = await twice(() => ({ ignored: true }), '/v1/test/no-content');
    expect(first.status).toBe(204);
    for (const { headers, bytes } of [first, again]) {
      expect([bytes.length, headers['content-length'], headers['content-type']]).toEqual([0, undefined, undefined]);
    }
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('the last value of an Observable', async () => {
    const [first, again] = await twice(() => from([{ n: 1 }, { n: 2 }]));
    expect(first.body).toEqual({ n: 2 });
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('what an interceptor behind the key makes of the result', async () => {
    routes.wrap = (result) => result.pipe(map((data) => ({ data })));
    const [first, again] = await twice(() => ({ n: 1 }), '/v1/test/wrapped');
    expect(first.text).toBe('{"data":{"n":1}}');
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('what it makes of a failure', async () => {
    routes.wrap = (result) => result.pipe(catchError(() => of({ mended: true })));
    const [first, again] = await twice(() => {
      throw new Error('mended outside of any unit of work: what was written stands');
    }, '/v1/test/wrapped');
    expect([first.status, first.text]).toEqual([201, '{"mended":true}']);
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('the first answer also has the headers that belong to this one exchange', async () => {
    const [first, again] = await twice(({ response }) => {
      response.set('Deprecation', '@1688169599');
      return {};
    });
    expect(first.headers.deprecation).toBe('@1688169599');
    expectReplayOf(first, again);
    await expectOnce();
  });

  it('a thrown refusal keeps its own status, whatever the route or the handler had set before', async () => {
    const [first, again] = await twice(({ response }) => {
      response.set({ Location: '/v1/jobs/7', ETag: '"7"', 'Content-Type': 'text/csv' });
      throw new Problem(DuplicateExternalRef, 'There 🫖 is one.', { members: { orderId: 'o-1' } });
    }, '/v1/test/accepted');
    expect([first.status, first.headers['content-type']]).toEqual([409, 'application/problem+json; charset=utf-8']);
    expect([first.headers.location, first.headers.etag]).toEqual([undefined, undefined]);
    expect(first.body).toMatchObject({ code: 'duplicate-external-ref', orderId: 'o-1', detail: 'There 🫖 is one.' });
    expectReplayOf(first, again);
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });
});

describe('K10: what could not be replayed fails, leaves nothing behind and frees the key', () => {
  const expectFreed = async (): Promise<void> => {
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
    routes.work = ({ tenantId }) => routes.createOrder(tenantId);
    const retry = await service.as().post('/v1/test/work', {}, 'k-1');
    expect([retry.status, retry.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  };

  it.each<[string, () => unknown]>([
    ['a promise of a StreamableFile', async () => Promise.resolve(new StreamableFile(Buffer.from('bytes')))],
    ['a Node stream', () => Readable.from(['bytes'])],
    ['a web stream', () => new ReadableStream()],
    ['an object that refers to itself', circular],
    ['a bigint inside of JSON', () => ({ n: 1n })],
  ])('%s: 500', async (_, answer) => {
    const [first, again] = await twice(answer);
    for (const { status, body } of [first, again]) {
      expect([status, body.code]).toEqual([500, 'internal-error']);
      expect(body.errorId).toMatch(/^[0-9a-f-]{36}$/);
    }
    expect(routes.calls).toBe(2);
    await expectFreed();
  });
});

function circular(): unknown {
  const object: Record<string, unknown> = {};
  return (object.self = object);
}
