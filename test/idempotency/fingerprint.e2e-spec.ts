import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder, type ApiResponse } from '../support/api-client.js';
import { startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import type { TestApp } from '../support/test-app.js';
import { expectReplayOf } from './expect-replay-of.js';

const ONCE = { orders: 1, events: 1, keys: 1 };
const ID = '0198c0de-0000-7000-8000-00000000abcd';
const ORDER = '{"currency":"EUR","items":[{"sku":"thé","quantity":1,"unitAmount":100}],"metadata":{}}';

let service: TestApp;
let routes: TestRoutes;
beforeAll(async () => ({ service, routes } = await startWithTestRoutes()));
afterAll(() => service.stop());
beforeEach(async () => {
  routes.reset();
  routes.work = ({ tenantId }) => routes.createOrder(tenantId);
  await service.database.clear();
});

const order = (body: unknown, headers: Record<string, string> = {}): Promise<ApiResponse> =>
  service.as().post('/v1/orders', body, 'k-1', headers);

describe('K6, M5: the same request, written in another way, is a replay', () => {
  it.each([
    ['other member order', '{"metadata":{},"items":[{"unitAmount":100,"quantity":1,"sku":"thé"}],"currency":"EUR"}'],
    [
      'white space',
      ' {\n"currency" : "EUR",\t"items":[ {"sku":"thé","quantity":1,"unitAmount":100} ],"metadata":{ }}\n',
    ],
    ['é escaped', '{"currency":"EUR","items":[{"sku":"th\\u00e9","quantity":1,"unitAmount":100}],"metadata":{}}'],
    ['escapes where none are needed', ORDER.replace('"EUR"', '"\\u0045\\u0055R"')],
    ['1e2 for 100', ORDER.replace('100', '1e2')],
    ['100.0 for 100', ORDER.replace('100', '100.0')],
    ['items[].quantity left out', ORDER.replace('"quantity":1,', '')],
    ['items[].quantity written 1.0', ORDER.replace('"quantity":1,', '"quantity":1.0,')],
    ['metadata left out', ORDER.replace(',"metadata":{}', '')],
    ['both defaults left out', '{"currency":"EUR","items":[{"sku":"thé","unitAmount":100}]}'],
    ['a note about the attempt', ORDER.replace('{"cur', '{"clientContext":{"attempt":2,"at":"12:00"},"cur')],
  ])('%s', async (_, written) => {
    const first = await order(ORDER);
    expect(first.status).toBe(201);
    expectReplayOf(first, await order(written));
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('and so it is when the shorter form came first', async () => {
    const first = await order('{"items":[{"sku":"thé","unitAmount":1e2}],"currency":"EUR","clientContext":{"n":1}}');
    expectReplayOf(first, await order(ORDER));
    expectReplayOf(first, await order(ORDER.replace('{"cur', '{"clientContext":{"n":2},"cur')));
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('headers do not count: another content type parameter, agent or trace', async () => {
    const first = await order(ORDER);
    const headers = { 'Content-Type': 'application/json; charset=UTF-8', 'User-Agent': 'other/2', traceparent: '00-1' };
    expectReplayOf(first, await order(ORDER, headers));
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('the encoding of the transfer does not count', async () => {
    const first = await order(ORDER);
    expectReplayOf(first, await order(gzipSync(ORDER), { 'Content-Encoding': 'gzip' }));
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('PATCH has its own defaults: a quantity left out is 1, metadata left out is not {}', async () => {
    const created = await service.as().post('/v1/orders', newOrder(), 'k-0');
    const change = (body: unknown) =>
      service.as().patch(created.headers.location!, body, { 'Idempotency-Key': 'k-1', 'If-Match': '"1"' });
    const first = await change({ items: [{ sku: 'a', unitAmount: 1 }] });
    expect([first.status, first.headers.etag]).toEqual([200, '"2"']);
    expectReplayOf(first, await change({ items: [{ quantity: 1, unitAmount: 1, sku: 'a' }] }));
    expect((await change({ items: [{ sku: 'a', unitAmount: 1 }], metadata: {} })).status).toBe(422);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 2 });
  });

  it.each([
    ['a path segment percent-encoded without need', '/v1/test/names/abc', '/v1/test/names/%61b%63'],
    ['a slash at the end', '/v1/test/names/abc', '/v1/test/names/abc/'],
    ['the letters of the route itself in another case', '/v1/test/names/abc', '/V1/Test/NAMES/abc'],
    ['an id in capitals', `/v1/test/items/${ID}`, `/v1/test/items/${ID.toUpperCase()}`],
    ['the query percent-encoded otherwise', '/v1/test/work?to=x y', '/v1/test/work?to=%78+y'],
  ])('K3: %s', async (_, path, sameAs) => {
    const first = await service.as().post(encodeURI(path), {}, 'k-1');
    expectReplayOf(first, await service.as().post(sameAs, {}, 'k-1'));
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('B2: a record by another version of the algorithm is never called another request', async () => {
    const first = await order(ORDER);
    await service.database.query(`UPDATE idempotency_keys SET fingerprint_version = 0, fingerprint = '\\x00'`);
    expectReplayOf(first, await order(ORDER));
    expect(await service.database.counts()).toEqual(ONCE);
  });
});

describe('K7, M6: another request under the same key is 422 and never a replay', () => {
  const big = (last: string) => newOrder({ metadata: { note: 'x'.repeat(90_000) + last } });

  it.each<[string, unknown, unknown]>([
    ['"1" and 1', newOrder({ metadata: { n: '1' } }), newOrder({ metadata: { n: 1 } })],
    ['2 and "2"', newOrder(), newOrder({ items: [{ sku: 'tea', quantity: '2', unitAmount: 450 }] })],
    ['composed and decomposed é', newOrder({ metadata: { n: '\u00e9' } }), newOrder({ metadata: { n: 'e\u0301' } })],
    ['a change only at the end of a 90 kB body', big('a'), big('b')],
    ['numbers that differ in the last digit', newOrder(), newOrder({ items: [{ sku: 'tea', unitAmount: 451 }] })],
    ['items in another order', newOrder({ items: items('a', 'b') }), newOrder({ items: items('b', 'a') })],
    ['a quantity that is not the default', newOrder({ items: items('a') }), newOrder({ items: items('a', 'a') })],
    ['metadata that is not the default', newOrder(), newOrder({ metadata: { a: '1' } })],
    ['an unknown member more', newOrder(), newOrder({ surprise: true })],
    ['a member written null', newOrder(), newOrder({ externalRef: null })],
    ['no body', newOrder(), undefined],
    ['a body that is a list', newOrder(), [newOrder()]],
  ])('%s', async (_, first, second) => {
    expect((await order(first)).status).toBe(201);
    const refused = await order(second);
    expect([refused.status, refused.body.code]).toEqual([422, 'idempotency-key-reused']);
    expect(refused.headers['idempotent-replayed']).toBeUndefined();
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it.each([
    ['?to=x and ?to=y', '/v1/test/work?to=x', '/v1/test/work?to=y'],
    ['a query and none', '/v1/test/work?to=x', '/v1/test/work'],
    ['one value and two', '/v1/test/work?to=x', '/v1/test/work?to=x&to=x'],
    ['names and values joined otherwise', '/v1/test/work?a=b&c=d', '/v1/test/work?a=b%26c%3Dd'],
    ['a name in the path in another case', '/v1/test/names/abc', '/v1/test/names/ABC'],
    ['an id that is no UUID in another case', '/v1/test/items/ref-1', '/v1/test/items/REF-1'],
    ['an encoded slash in a name', '/v1/test/names/a', '/v1/test/names/a%2F'],
  ])('%s', async (_, first, second) => {
    expect((await service.as().post(first, {}, 'k-1')).status).toBe(201);
    const refused = await service.as().post(second, {}, 'k-1');
    expect([refused.status, refused.body.code]).toEqual([422, 'idempotency-key-reused']);
    expect(routes.calls).toBe(1);
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('M6: the refusal says when the key was first used and with what status it ended', async () => {
    await order(newOrder());
    const refused = await order(newOrder({ currency: 'USD' }));
    const [status] = (await service.as().get('/v1/idempotency-keys/k-1')).body.data;
    expect(refused.body.detail).toContain(status.createdAt);
    expect(refused.body.detail).toContain('201');
    expect(refused.headers['content-type']).toMatch(/^application\/problem\+json/);
    expect(refused.body.type).toBe(
      `${service.baseUrl.replace('127.0.0.1', 'localhost')}/problems/idempotency-key-reused`,
    );
  });

  it('M6: it is refused after a stored refusal, too, and the refusal stays on record', async () => {
    const first = await order(newOrder({ currency: 'XXQ' }));
    expect(first.status).toBe(400);
    const refused = await order(newOrder());
    expect(refused.status).toBe(422);
    expect(refused.body.detail).toContain('400');
    expectReplayOf(first, await order(newOrder({ currency: 'XXQ' })));
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
  });
});

describe('K7, B2: a body that cannot be taken at its word is 400 and claims nothing', () => {
  it.each([
    ['9007199254740993', ORDER.replace('100', '9007199254740993')],
    ['1e400', ORDER.replace('100', '1e400')],
    ['0.30000000000000004441', ORDER.replace('100', '0.30000000000000004441')],
    ['a member twice', ORDER.replace('{"cur', '{"currency":"USD","cur')],
    ['a member twice, once escaped', ORDER.replace('{"cur', '{"\\u0063urrency":"USD","cur')],
    ['a lone surrogate', ORDER.replace('thé', '\\ud800')],
    ['NUL', ORDER.replace('thé', '\\u0000')],
    ['__proto__', ORDER.replace('"metadata":{}', '"metadata":{"__proto__":"x"}')],
    ['nesting deeper than 32', `${'['.repeat(33)}${']'.repeat(33)}`],
    ['a byte order mark', `\uFEFF${ORDER}`],
    ['invalid UTF-8', Buffer.from(ORDER, 'latin1')],
    ['half a body', ORDER.slice(0, -1)],
    ['two bodies', ORDER + ORDER],
    ['NaN', ORDER.replace('100', 'NaN')],
  ])('%s', async (_, body) => {
    const refused = await order(body);
    expect([refused.status, refused.body.code]).toEqual([400, 'malformed-json']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });

    expect((await order(ORDER)).status).toBe(201); // the key is free for a request that can be read
    expect(await service.database.counts()).toEqual(ONCE);
  });

  it('and it is no replay where its double is on record', async () => {
    const at = (amount: string) => ORDER.replace('100', amount);
    expect((await order(at('9007199254740991'))).status).toBe(201);
    for (const amount of ['9007199254740993', '9007199254740991.1', '9.0071992547409911e15']) {
      expect((await order(at(amount))).body.code).toBe('malformed-json');
    }
    expect(await service.database.counts()).toEqual(ONCE);
  });
});

function items(...skus: string[]): unknown[] {
  return skus.map((sku) => ({ sku, unitAmount: 100 }));
}
