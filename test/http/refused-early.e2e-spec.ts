import { connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { GLOBEX, TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';

let database: TestDatabase;
let service: TestApp;
beforeAll(async () => {
  database = await TestDatabase.create();
  service = await TestApp.start({}, { database });
});
afterAll(() => service.stop());
beforeEach(() => database.clear());

describe('a tenant that sends too much', () => {
  it('is told 429, and no key is touched; another tenant is served', async () => {
    const limited = await TestApp.start({ RATE_LIMIT: '1' }, { database });
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, n) => limited.as().post('/v1/orders', newOrder(), `k-${n}`)),
    );
    const other = await limited.as(GLOBEX).get('/v1/orders');
    await limited.app.close();

    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    for (const { body, headers } of refused) {
      expect([body.code, headers['retry-after']]).toEqual(['rate-limited', '1']);
      expect((await service.as().get(new URL(body.type as string).pathname)).status).toBe(200);
    }
    expect(other.status).toBe(200);
    const served = answers.length - refused.length;
    expect(await database.counts()).toEqual({ orders: served, events: served, keys: served });
  });

  it('is told so before its body is read, whatever that is', async () => {
    const limited = await TestApp.start({ RATE_LIMIT: '1' }, { database });
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => limited.as().post('/v1/orders', '{', 'k-1', { 'Content-Type': 'text/plain' })),
    );
    await limited.app.close();

    const codes = answers.map(({ body }) => body.code as string);
    expect(codes).toContain('rate-limited');
    expect(codes.filter((code) => code === 'unsupported-media-type').length).toBeLessThan(5);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('what is no request at all', () => {
  /** What comes back for these bytes until the connection ends. */
  const answerTo = (bytes: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(Number(new URL(service.baseUrl).port), '127.0.0.1');
      let text = '';
      socket.on('data', (chunk) => (text += chunk.toString()));
      socket.on('error', reject);
      socket.on('close', () => resolve(text));
      socket.write(bytes);
    });

  it.each([
    ['malformed-request', 400, 'hello\r\n\r\n'],
    ['malformed-request', 400, 'GET /v1/orders HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n'],
    ['request-header-fields-too-large', 431, `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`],
  ])('is answered with a problem document as well: %s, %d', async (code, status, bytes) => {
    const [head, body] = (await answerTo(bytes)).split('\r\n\r\n') as [string, string];

    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(head).toMatch(/^content-type: application\/problem\+json/im);
    const problem = JSON.parse(body) as { code: string; type: string; status: number };
    expect([problem.code, problem.status]).toEqual([code, status]);
    expect((await fetch(problem.type)).status).toBe(200);
    expect(await database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});
