import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import request from 'supertest';
import { Drain } from '../../src/operations/drain.js';
import { newOrder } from '../support/api-client.js';
import { Gate, startWithTestRoutes, type TestRoutes } from '../support/test-routes.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';

/** Sends bytes as they are, and gives everything that comes back until the service closes. */
function raw(baseUrl: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(baseUrl);
  return new Promise((resolve, reject) => {
    let answer = '';
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    socket.setEncoding('utf8').on('data', (chunk: string) => (answer += chunk));
    socket.on('error', reject).on('close', () => resolve(answer));
  });
}

describe('what the parser of HTTP refuses', () => {
  let service: TestApp;
  beforeAll(async () => (service = await TestApp.start()));
  afterAll(() => service.stop());

  it.each([
    ['HTTP/1.1 without Host', 'GET /health/live HTTP/1.1\r\n\r\n', 400, 'malformed-request'],
    ['a target that is no URL', 'GET http://[::1/v1/orders HTTP/1.1\r\nHost: x\r\n\r\n', 400, 'malformed-request'],
    [
      'an unknown expectation',
      'GET /health/live HTTP/1.1\r\nHost: x\r\nExpect: a miracle\r\n\r\n',
      417,
      'expectation-failed',
    ],
    ['no HTTP at all', 'GARBAGE\r\n\r\n', 400, 'malformed-request'],
    ['a header line without a colon', 'GET / HTTP/1.1\r\nHost x\r\n\r\n', 400, 'malformed-request'],
    [
      'two lengths of one body',
      'POST /v1/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
      400,
      'malformed-request',
    ],
    [
      'headers of 20 kB',
      `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
      431,
      'request-header-fields-too-large',
    ],
  ])('is answered with a problem document: %s', async (_, bytes, status, code) => {
    const answer = await raw(service.baseUrl, bytes);
    const [head, body] = answer.split('\r\n\r\n') as [string, string];
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(head).toMatch(/Content-Type: application\/problem\+json/);
    expect(JSON.parse(body)).toMatchObject({ status, code, type: expect.stringMatching(`/problems/${code}$`) });
    await request(service.baseUrl).get(`/problems/${code}`).expect(200).expect('Content-Type', /html/);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('a request that does not come to its end', () => {
  let service: TestApp;
  beforeAll(async () => (service = await TestApp.start()));
  afterAll(() => service.stop());

  it('is given up after a bounded time, and its client is told', async () => {
    const server = service.app.getHttpServer();
    expect([server.headersTimeout, server.requestTimeout]).toEqual([10_000, 30_000]);
    // Node looks for late requests every 30 s; this is what it does when it finds one.
    server.once('connection', (socket) => {
      socket.once('data', () => socket.emit('error', Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })));
    });
    const [head, body] = (await raw(service.baseUrl, 'POST /v1/orders HTTP/1.1\r\nHost: ')).split('\r\n\r\n');
    expect(head).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\nContent-Type: application\/problem\+json/);
    expect(JSON.parse(body!)).toMatchObject({ status: 408, code: 'request-timeout' });
    await request(service.baseUrl).get('/problems/request-timeout').expect(200).expect('Content-Type', /html/);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('a socket with more than one request', () => {
  let service: TestApp;
  beforeAll(async () => (service = await TestApp.start()));
  afterAll(() => service.stop());
  beforeEach(() => service.database.clear());

  const body = JSON.stringify(newOrder());
  const order = (more: string, length = body.length) =>
    `POST /v1/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ACME.key}\r\nContent-Type: application/json\r\n` +
    `Idempotency-Key: k\r\nContent-Length: ${length}\r\n${more}\r\n${body}`;

  it('gets the answer to what was carried out, before that to rubbish behind it', async () => {
    const answers = await raw(service.baseUrl, `${order('')}RUBBISH\r\n\r\n`);
    expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 201', 'HTTP/1.1 400']);
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('gets whole answers, one after another, when one of them expects 100-continue', async () => {
    const get = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n';
    const answers = await raw(service.baseUrl, get + order('Expect: 100-continue\r\nConnection: close\r\n'));
    const [first, second] = answers.split(/(?=HTTP\/1\.1 201)/);
    expect(first).toMatch(/^HTTP\/1\.1 200 [^{]*\r\n\r\n\{"status":"ok"\}(HTTP\/1\.1 100 Continue\r\n\r\n)?$/);
    expect(second).toMatch(/^HTTP\/1\.1 201 /);
  });
});

describe('a client that hangs up on requests it has pipelined', () => {
  let service: TestApp;
  let routes: TestRoutes;
  beforeAll(async () => ({ service, routes } = await startWithTestRoutes()));
  afterAll(() => service.stop());
  afterEach(() => {
    jest.restoreAllMocks();
  });

  it('leaves none of them behind: each has its line in the log, and the service can drain', async () => {
    const lines: { requestId?: string; aborted?: boolean }[] = [];
    jest.spyOn(Logger.prototype, 'log').mockImplementation((line: unknown) => void lines.push(line as object));
    const gate = new Gate();
    routes.work = () => gate.pass();
    const head = (line: string, id: string) =>
      `${line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${ACME.key}\r\nX-Request-Id: ${id}\r\n`;
    const { hostname, port } = new URL(service.baseUrl);
    const socket = connect(Number(port), hostname);
    socket.write(
      `${head('POST /v1/test/work', 'first')}Idempotency-Key: k\r\nContent-Length: 0\r\n\r\n` +
        `${head('GET /health/live', 'second')}\r\n${head('GET /nowhere', 'third')}\r\n`,
    );
    await gate.reached;
    socket.destroy();
    await waitFor(() => lines.length === 3, { description: 'the lines of three requests' });
    expect(lines.map(({ requestId, aborted }) => [requestId, aborted]).sort()).toEqual([
      ['first', true],
      ['second', true],
      ['third', true],
    ]);
    gate.open();
    await service.app.get(Drain).run(3_600_000); // arrives, or this test hangs
    await waitFor(async () => (await service.database.count('idempotency_keys')) === 1, {
      description: 'the first to be carried out all the same',
    });
  });
});

describe('a compressed body', () => {
  let service: TestApp;
  beforeAll(async () => (service = await TestApp.start()));
  afterAll(() => service.stop());

  it('that is too large and broken as well is refused, and the service lives', async () => {
    const broken = gzipSync(Buffer.alloc(120_000, 0x20));
    broken[broken.length - 6]! ^= 0xff;
    const send = () => service.as().post('/v1/orders', broken, 'gz', { 'Content-Encoding': 'gzip' });
    for (let n = 0; n < 5; n++) expect((await send()).status).toBe(413);
    expect((await service.as().get('/health/live')).status).toBe(200);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('the rate limit', () => {
  let service: TestApp;
  beforeAll(async () => (service = await TestApp.start({ RATE_LIMIT: '5' })));
  afterAll(() => service.stop());

  it('turns a tenant away with 429 and Retry-After, burns no key, and leaves other tenants alone', async () => {
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) => service.as(ACME).post('/v1/orders', newOrder(), `k-${n}`)),
    );
    const limited = answers.filter(({ status }) => status === 429);
    expect(limited.length).toBeGreaterThan(0);
    for (const { body, headers } of limited) {
      expect(body.code).toBe('rate-limited');
      expect(headers['retry-after']).toBe('1');
    }
    const done = answers.length - limited.length;
    expect(await service.database.counts()).toEqual({ orders: done, events: done, keys: done });
    expect((await service.as(GLOBEX).post('/v1/orders', newOrder(), 'k-0')).status).toBe(201);

    const key = `k-${answers.findIndex(({ status }) => status === 429)}`;
    const later = await waitFor(
      async () => {
        const answer = await service.as(ACME).post('/v1/orders', newOrder(), key);
        return answer.status === 429 ? undefined : answer;
      },
      { description: 'the next second' },
    );
    expect(later.status).toBe(201);
    expect(later.headers['idempotent-replayed']).toBeUndefined();
  });
});

describe('a browser of another origin', () => {
  let service: TestApp;
  beforeAll(async () => (service = await TestApp.start({ CORS_ORIGINS: 'https://shop.example' })));
  afterAll(() => service.stop());

  it('may send keys and conditions, and read what tells it about a replay, when its origin is allowed', async () => {
    const preflight = await request(service.baseUrl)
      .options('/v1/orders')
      .set({
        Origin: 'https://shop.example',
        'Access-Control-Request-Method': 'POST',
        'Access-Control-Request-Headers': 'idempotency-key,if-match,if-none-match',
      })
      .expect(204)
      .expect('Access-Control-Allow-Origin', 'https://shop.example');
    expect(preflight.headers['access-control-allow-headers']).toMatch(/Idempotency-Key.*If-Match.*If-None-Match/);
    expect(preflight.headers['access-control-allow-methods']).toMatch(/GET.*POST.*PUT.*PATCH.*DELETE/);
    const answer = await request(service.baseUrl).get('/v1/orders').set('Origin', 'https://shop.example').expect(401);
    for (const name of ['Idempotent-Replayed', 'Idempotency-Expires', 'ETag', 'Location', 'Retry-After']) {
      expect(answer.headers['access-control-expose-headers']).toContain(name);
    }
  });

  it('may come from anywhere when that is what is set', async () => {
    const open = await TestApp.start({ CORS_ORIGINS: '*' }, { database: service.database });
    const answer = await open.as().get('/v1/orders', { Origin: 'https://shop.example' });
    await open.app.close();
    expect(answer.headers['access-control-allow-origin']).toBe('*');
  });

  it('is told nothing when its origin is not', async () => {
    const answer = await request(service.baseUrl).get('/v1/orders').set('Origin', 'https://evil.example');
    expect(answer.headers['access-control-allow-origin']).toBeUndefined();
  });
});

describe('an answer', () => {
  let service: TestApp;
  beforeAll(async () => (service = await TestApp.start()));
  afterAll(() => service.stop());

  it.each(['/health/live', '/docs', '/problems/not-found', '/v1/orders', '/nowhere'])(
    'tells browsers to be careful with it: %s',
    async (path) => {
      const { headers } = await service.as().get(path);
      const policy = headers['content-security-policy'];
      expect([headers['x-content-type-options'], headers['x-frame-options']]).toEqual(['nosniff', 'SAMEORIGIN']);
      expect(policy).toContain("default-src 'self'");
      expect(policy).not.toContain('upgrade-insecure-requests'); // there is nothing to upgrade to on localhost
    },
  );
});

describe('the log', () => {
  let service: TestApp;
  let lines: Record<string, unknown>[];
  beforeAll(async () => (service = await TestApp.start()));
  afterAll(() => service.stop());
  beforeEach(() => {
    lines = [];
    jest.spyOn(Logger.prototype, 'log').mockImplementation((message: unknown) => {
      lines.push(message as Record<string, unknown>);
    });
  });
  afterEach(() => {
    jest.restoreAllMocks();
  });

  const line = (requestId: string) =>
    waitFor(() => lines.find((entry) => entry.requestId === requestId), { description: `the line of ${requestId}` });

  it('has one line for each request, with tenant, endpoint and outcome, the key as a hash, and no body', async () => {
    const secret = 'do-not-log-me';
    const order = newOrder({ metadata: { secret } });
    const post = (id: string, body: unknown) =>
      service.as().post('/v1/orders?asked=do-not-log-me', body, 'plain-key', { 'X-Request-Id': id });
    await post('one', order);
    await post('two', order);
    await post('three', newOrder());

    const common = { method: 'POST', path: '/v1/orders', tenantId: ACME.tenantId, endpoint: 'orders.create' };
    expect(await line('one')).toMatchObject({ ...common, status: 201, outcome: 'executed' });
    expect(await line('two')).toMatchObject({ ...common, status: 201, outcome: 'replayed' });
    expect(await line('three')).toMatchObject({ ...common, status: 422, outcome: 'mismatch' });
    expect((await line('one')).keyHash).toBe((await line('three')).keyHash);
    expect(lines).toHaveLength(3);
    for (const text of [secret, 'plain-key', ACME.key]) expect(JSON.stringify(lines)).not.toContain(text);
  });

  it('hides the key in the path of its status, and makes an id of its own for one that is not sane', async () => {
    const { headers } = await service.as().get('/v1/idempotency-keys/plain-key', { 'X-Request-Id': 'a b\tc' });
    expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    const long = await service.as().get('/health/live', { 'X-Request-Id': 'x'.repeat(129) });
    expect(long.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    expect(await line(headers['x-request-id']!)).toMatchObject({ path: '/v1/idempotency-keys/…', status: 200 });
  });
});
