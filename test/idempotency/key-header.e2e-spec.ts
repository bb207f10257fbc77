import { connect } from 'node:net';
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type ApiResponse, newOrder } from '../support/api-client.js';
import { startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import { ACME, type TestApp } from '../support/test-app.js';
import { expectReplayOf } from './expect-replay-of.js';

describe('M11: the Idempotency-Key header', () => {
  let service: TestApp;
  let routes: TestRoutes;
  beforeAll(async () => ({ service, routes } = await startWithTestRoutes()));
  afterAll(() => service.stop());
  beforeEach(async () => {
    routes.reset();
    await service.database.clear();
  });

  const order = (key: string | string[] | undefined, body: unknown = newOrder()): Promise<ApiResponse> =>
    service
      .as()
      .send('POST', '/v1/orders', { body, ...(key !== undefined && { headers: { 'Idempotency-Key': key } }) });

  const expectNothingClaimed = async (): Promise<void> =>
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });

  it('is required: without it 400, and nothing is claimed', async () => {
    const refused = await order(undefined);
    expect([refused.status, refused.body.code]).toEqual([400, 'idempotency-key-missing']);
    expect(refused.headers['content-type']).toMatch(/^application\/problem\+json/);
    await expectNothingClaimed();
  });

  it.each<[string, string | string[]]>([
    ['empty', ''],
    ['blanks only', '   '],
    ['an empty string in quotes', '""'],
    ['256 characters', 'k'.repeat(256)],
    ['256 characters in quotes', `"${'k'.repeat(256)}"`],
    ['a letter beyond ASCII', 'clé'],
    ['a tab inside', 'a\tb'],
    ['a quote that is not closed', '"abc'],
    ['a quote that is not opened', 'abc"'],
    ['a quote inside', 'a"b'],
    ['text behind the closing quote', '"abc"d'],
    ['a parameter behind the closing quote', '"abc";v=1'],
    ['an escape that is none', '"a\\bc"'],
    ['two lines', ['k-1', 'k-2']],
    ['two lines of one key', ['k-1', 'k-1']],
  ])('malformed (%s) is 400, and nothing is claimed', async (_, key) => {
    const refused = await order(key);
    expect([refused.status, refused.body.code]).toEqual([400, 'idempotency-key-invalid']);
    await expectNothingClaimed();
  });

  it('malformed is 400 where it is optional, too: it is never taken for none', async () => {
    const refused = await service.as().patch('/v1/test/optional', {}, { 'Idempotency-Key': '"abc' });
    expect([refused.status, refused.body.code]).toEqual([400, 'idempotency-key-invalid']);
    expect(routes.calls).toBe(0);
    await expectNothingClaimed();
  });

  it('two lines are two lines, whatever stands between them', async () => {
    const answer = await raw(
      `POST /v1/test/work HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ACME.key}\r\n` +
        'idempotency-key: k-1\r\nContent-Length: 0\r\nIDEMPOTENCY-KEY: k-2\r\nConnection: close\r\n\r\n',
    );
    expect(answer).toContain('400 Bad Request');
    expect(answer).toContain('idempotency-key-invalid');
    expect(routes.calls).toBe(0);
    await expectNothingClaimed();
  });

  it.each<[string, string, string]>([
    ['bare and in quotes', 'abc-1', '"abc-1"'],
    ['with blanks around', 'abc-1', '  abc-1\t'],
    ['with escapes', '"a\\"b\\\\c"', ' "a\\"b\\\\c" '],
    ['255 characters', 'k'.repeat(255), `"${'k'.repeat(255)}"`],
    ['every printable character but the quote', printable(), printable()],
    ['a comma inside of one line', 'a, b', '"a, b"'],
    ['one character', '0', '"0"'],
  ])('is one key: %s', async (_, one, same) => {
    const first = await order(one);
    expect(first.status).toBe(201);
    expectReplayOf(first, await order(same));
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each([
    ['in another case', 'abc-1', 'ABC-1'],
    ['with blanks inside of the quotes', '"abc"', '" abc "'],
    ['that begins alike', 'a', 'aa'],
    ['with an escaped backslash', 'a\\b', '"a\\\\\\\\b"'],
  ])('is another key: %s', async (_, one, other) => {
    expect((await order(one)).status).toBe(201);
    const second = await order(other);
    expect([second.status, second.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect(await service.database.counts()).toEqual({ orders: 2, events: 2, keys: 2 });
  });

  it('is ignored on routes that are not under a key, malformed ones included', async () => {
    const path = `/v1/orders/${randomUUID()}`;
    for (const key of ['k-1', 'k-1', '"abc', '']) {
      const { status, headers } = await service.as().put(path, newOrder(), { 'Idempotency-Key': key });
      expect([200, 201]).toContain(status);
      expect(headers['idempotent-replayed']).toBeUndefined();
    }
    const other = newOrder({ currency: 'USD' });
    const changed = await service.as().put(path, other, { 'Idempotency-Key': 'k-1', 'If-Match': '"1"' });
    expect(changed.status).toBe(200);
    expect((await service.as().get('/v1/orders', { 'Idempotency-Key': 'k-1' })).status).toBe(200);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 2, keys: 0 });
  });

  it('is looked at after the body could be read, and before it is validated', async () => {
    expect((await order(undefined, '{"a":')).body.code).toBe('malformed-json');
    expect((await order('"abc', '{"a":1,"a":2}')).body.code).toBe('malformed-json');
    const media = await service
      .as()
      .send('POST', '/v1/orders', { body: 'a=1', headers: { 'Content-Type': 'text/plain' } });
    expect([media.status, media.body.code]).toEqual([415, 'unsupported-media-type']);
    expect((await order(undefined, { metadata: { x: 'x'.repeat(110_000) } })).body.code).toBe('payload-too-large');
    expect((await order(undefined, { surprise: 1 })).body.code).toBe('idempotency-key-missing');
    await expectNothingClaimed();
  });

  it('claims nothing with a body that is refused before the claim', async () => {
    expect((await order('k-1', { metadata: { x: 'x'.repeat(110_000) } })).status).toBe(413);
    const headers = { 'Content-Type': 'text/plain' };
    expect((await service.as().send('POST', '/v1/orders', { key: 'k-1', body: 'a=1', headers })).status).toBe(415);
    await expectNothingClaimed();
    expect((await order('k-1')).status).toBe(201);
  });

  function raw(request: string): Promise<string> {
    const { hostname, port } = new URL(service.baseUrl);
    return new Promise((resolve, reject) => {
      let answer = '';
      const socket = connect(Number(port), hostname, () => socket.write(request));
      socket.setEncoding('utf8').on('data', (text: string) => (answer += text));
      socket.on('end', () => resolve(answer)).on('error', reject);
    });
  }
});

function printable(): string {
  const codes = Array.from({ length: 0x7f - 0x21 }, (_, index) => index + 0x21);
  return String.fromCharCode(...codes).replace('"', '');
}
