import { type ClientRequest, request } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type ApiResponse, newOrder } from '../support/api-client.js';
import { ACME, TestApp } from '../support/test-app.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const post = (body: unknown, headers: Record<string, string> = {}) =>
  service.as().post('/v1/orders', body, 'k-1', headers);
const order = Buffer.from(JSON.stringify(newOrder()));
const paddedTo = (length: number) => Buffer.concat([order, Buffer.alloc(length - order.length, ' ')]);
const withMetadata = (members: string) =>
  `{"currency":"EUR","items":[{"sku":"tea","unitAmount":1}],"metadata":{${members}}}`;
const withAmount = (amount: string) => `{"currency":"EUR","items":[{"sku":"tea","unitAmount":${amount}}]}`;
const nested = (depth: number) =>
  `{"currency":"EUR","items":[{"sku":"tea","unitAmount":1}],"clientContext":{"a":${'['.repeat(depth - 2)}${']'.repeat(depth - 2)}}}`;

/** Refused before any key is touched. */
async function expectUntouched({ status, body, text }: ApiResponse, expected: number, code: string): Promise<void> {
  expect([status, body?.code, text]).toEqual([expected, code, text]);
  expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
}

async function expectCreated({ status, text }: ApiResponse): Promise<void> {
  expect([status, text]).toEqual([201, text]);
  expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
}

/** Sends a body piece by piece and leaves when the answer has come, or 3 s without one. */
function upload(
  headers: Record<string, string>,
  send: (request: ClientRequest) => void,
): Promise<{ status: number | undefined; code?: string }> {
  return new Promise((resolve) => {
    const all = { Authorization: `Bearer ${ACME.key}`, 'Content-Type': 'application/json', 'Idempotency-Key': 'k-1' };
    const sent = request(`${service.baseUrl}/v1/orders`, {
      method: 'POST',
      headers: { ...all, ...headers },
      timeout: 3_000,
    });
    sent.on('timeout', () => sent.destroy());
    sent.on('error', () => resolve({ status: undefined }));
    sent.on('response', (response) => {
      const read = textOf(response).then((text) => ({ status: response.statusCode, ...JSON.parse(text) }));
      resolve(read.finally(() => sent.destroy()));
    });
    send(sent);
  });
}

describe('a body that is no JSON every reader understands alike', () => {
  it.each<[string, string | Buffer]>([
    ['cut short', '{"currency":"EUR"'],
    ['nothing but blanks', '  \n '],
    ['plain text', 'currency=EUR'],
    ['with a comma too many', '{"currency":"EUR",}'],
    ['with a comment', '{/* shop */"currency":"EUR"}'],
    ['with single quotes', "{'currency':'EUR'}"],
    ['with something behind it', `${order.toString()} {}`],
    ['with NaN', withAmount('NaN')],
    ['with a leading zero', withAmount('01')],
    ['with a byte order mark', Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), order])],
    ['in UTF-16', Buffer.from(order.toString(), 'utf16le')],
    [
      'with invalid UTF-8',
      Buffer.concat([Buffer.from(withMetadata('"a":"')), Buffer.from([0xff]), Buffer.from('"}}')]),
    ],
    ['with a member twice', withMetadata('"a":"1","a":"1"')],
    ['with a member twice, once escaped', withMetadata('"a":"1","\\u0061":"2"')],
    ['with a number beyond 2^53', withAmount('9007199254740993')],
    ['with an infinite number', withAmount('1e400')],
    ['with a number too fine', withAmount('0.30000000000000004441')],
    ['with a lone surrogate', withMetadata('"a":"\\ud83e"')],
    ['with a lone surrogate in a name', withMetadata('"\\udd56":"a"')],
    ['with NUL', withMetadata('"a":"\\u0000"')],
    ['with a member called __proto__', withMetadata('"__proto__":"a"')],
    ['33 deep', nested(33)],
    ['45,000 deep', '['.repeat(45_000)],
  ])('is malformed-json: %s', async (_what, body) => {
    await expectUntouched(await post(body), 400, 'malformed-json');
  });

  it.each([
    ['32 deep', nested(32)],
    ['with numbers in other forms', withAmount('1.0e2')],
    ['with the largest number', withAmount('9007199254740991')],
    ['with blanks around everything', ` \t\r\n${withAmount('1').replaceAll(/([{}[\]:,])/g, ' $1 ')} \n`],
  ])('but this one is fine: %s', async (_what, body) => {
    await expectCreated(await post(body));
  });
});

describe('a body that is too large', () => {
  it('is refused from 100,001 bytes on', async () => {
    await expectUntouched(await post(paddedTo(100_001)), 413, 'payload-too-large');
    await expectCreated(await post(paddedTo(100_000)));
  });

  it('is refused when it does not say how long it is', async () => {
    const { status, code } = await upload({ 'Transfer-Encoding': 'chunked' }, (request) =>
      request.end(paddedTo(100_001)),
    );

    expect([status, code]).toEqual([413, 'payload-too-large']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it.each<[string, Record<string, string>, (request: ClientRequest) => void]>([
    ['says that it will be', { 'Content-Length': '100001' }, (request) => request.flushHeaders()],
    ['is by now', { 'Transfer-Encoding': 'chunked' }, (request) => request.write(paddedTo(100_001))],
  ])('is refused at once, before it has come to its end, when it %s', async (_what, headers, send) => {
    const { status, code } = await upload(headers, send);

    expect([status, code]).toEqual([413, 'payload-too-large']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it('is measured as it is, not as it is compressed', async () => {
    const bomb = gzipSync(paddedTo(5_000_000));
    expect(bomb.length).toBeLessThan(10_000);

    await expectUntouched(await post(bomb, { 'Content-Encoding': 'gzip' }), 413, 'payload-too-large');
  });
});

describe('the media type of a body', () => {
  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/problem+json',
    'application/jsonp',
    'application/json; charset=latin1',
    'application/json; charset=utf-16',
    'json',
  ])('is not %s', async (type) => {
    await expectUntouched(await post(order, { 'Content-Type': type }), 415, 'unsupported-media-type');
  });

  it.each([
    'application/json',
    'APPLICATION/JSON',
    'application/json; charset=utf-8',
    'application/json;charset="UTF-8"',
    'application/json; charset=utf8',
    'application/json; profile=x',
  ])('may be %s', async (type) => {
    await expectCreated(await post(order, { 'Content-Type': type }));
  });

  it('must be given', async () => {
    const answer = await fetch(`${service.baseUrl}/v1/orders`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${ACME.key}`, 'Idempotency-Key': 'k-1' },
      body: new Uint8Array(order),
    });

    expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([415, 'unsupported-media-type']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('a compressed body', () => {
  it.each([
    ['gzip', gzipSync(order)],
    ['deflate', deflateSync(order)],
    ['br', brotliCompressSync(order)],
    ['identity', order],
  ])('is read: %s; it is the same request as a plain one', async (encoding, body) => {
    await expectCreated(await post(body, { 'Content-Encoding': encoding }));
    expect((await post(order)).headers['idempotent-replayed']).toBe('true');
  });

  it('that is broken is malformed-json', async () => {
    const gzipped = gzipSync(order);
    await expectUntouched(await post(order, { 'Content-Encoding': 'gzip' }), 400, 'malformed-json');
    await expectUntouched(await post(gzipped.subarray(0, 20), { 'Content-Encoding': 'gzip' }), 400, 'malformed-json');
    await expectUntouched(await post(gzipSync('{'), { 'Content-Encoding': 'gzip' }), 400, 'malformed-json');
  });

  it('of an unknown encoding is refused', async () => {
    await expectUntouched(await post(order, { 'Content-Encoding': 'zst' }), 415, 'unsupported-media-type');
  });
});
