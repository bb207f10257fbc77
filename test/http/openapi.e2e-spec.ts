import { readdirSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { OpenAPIObject } from '@nestjs/swagger';
import { type ApiRequest, newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';

const ROOT = new URL('../../', import.meta.url);

const read = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');

type Operation = NonNullable<OpenAPIObject['paths'][string]['get']>;

let service: TestApp;
let document: OpenAPIObject;
let operations: { name: string; path: string; operation: Operation }[];
beforeAll(async () => {
  service = await TestApp.start();
  document = (await service.as({ key: '' }).get('/openapi.json')).body as OpenAPIObject;
  operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      path,
      operation: operation as Operation,
    })),
  );
});
afterAll(() => service.stop());

/** What Express serves, but for what serves the document itself. */
function servedRoutes(): string[] {
  const { stack } = (service.app.getHttpAdapter().getInstance() as { router: { stack: unknown[] } }).router;
  return (stack as { route?: { path: string; methods: Record<string, boolean> } }[])
    .flatMap(({ route }) => (route ? Object.keys(route.methods).map((method) => ({ path: route.path, method })) : []))
    .filter(({ path }) => !/^\/(docs(\/|$)|openapi\.)/.test(path))
    .map(({ path, method }) => `${method.toUpperCase()} ${path.replaceAll(/:(\w+)/g, '{$1}')}`);
}

/** The codes that the source declares, those aside that Node's parser answers with before there is a route. */
function declaredCodes(): string[] {
  return readdirSync(new URL('src', ROOT), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('below-express.ts'))
    .flatMap((file) => [
      ...read(`src/${file}`).matchAll(/^(?:export )?const \w+ = problemType\(\{\s*code: '([^']+)'/gm),
    ])
    .map(([, code]) => code!);
}

describe('openapi.json', () => {
  it('is what the service answers', () => {
    const committed = JSON.parse(read('openapi.json')) as OpenAPIObject;
    try {
      expect(document).toEqual(committed);
    } catch (cause) {
      throw new Error(`openapi.json is out of date: run npm run openapi.\n\n${(cause as Error).message}`, { cause });
    }
  });

  it('says nothing of the process that answers it', () => {
    expect(document.servers).toEqual([{ url: '/' }]);
    expect(JSON.stringify(document)).not.toMatch(/localhost|127\.0\.0\.1/);
  });
});

describe('the OpenAPI document', () => {
  it('has every route that is served, and no other', () => {
    expect(operations.map(({ name }) => name).sort()).toEqual(servedRoutes().sort());
  });

  it('names every kind of problem that a route may answer with', () => {
    const { examples } = document.components!;
    const codes = declaredCodes();

    expect(codes.length).toBeGreaterThan(15);
    // A method that a route does not have is no operation of the document; its description tells what happens.
    expect(document.info.description).toContain('`method-not-allowed`');
    expect(codes.filter((code) => code !== 'method-not-allowed').sort()).toEqual(Object.keys(examples!).sort());
  });

  it('gives each operation a summary, a tag that is described and an id of its own', () => {
    const tags = document.tags!.map(({ name }) => name);
    for (const { name, operation } of operations) {
      expect([name, operation.summary]).toEqual([name, expect.stringMatching(/^[A-Z].*[^.]$/)]);
      expect([name, operation.tags!.every((tag) => tags.includes(tag))]).toEqual([name, true]);
    }
    const ids = operations.map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toEqual(ids.map(() => expect.stringMatching(/^[a-z]+[A-Z]\w+$/)));
  });

  it('tells where an API key is needed', async () => {
    for (const { name, path, operation } of operations) {
      const [method] = name.split(' ') as [string];
      const address = path.replaceAll(/\{\w+\}/g, 'x');
      const { status } = await service.as({ key: '' }).send(method, address, { headers: {} });
      expect([name, operation.responses['401'] !== undefined]).toEqual([name, status === 401]);
      expect([name, operation.security]).toEqual([name, status === 401 ? undefined : []]);
    }
  });

  it('tells each code under its status, in problem documents', () => {
    const { examples } = document.components! as { examples: Record<string, { value: { status: number } }> };
    for (const { name, operation } of operations) {
      for (const [status, response] of Object.entries(operation.responses)) {
        if (Number(status) < 400) continue;
        const { content } = response as { content: Record<string, { examples: object }> };
        expect([name, Object.keys(content)]).toEqual([name, ['application/problem+json']]);
        const codes = Object.keys(content['application/problem+json']!.examples);
        expect([name, codes.map((code) => examples[code]!.value.status)]).toEqual([
          name,
          codes.map(() => Number(status)),
        ]);
      }
    }
  });

  it('shows orders that the service takes, and answers with what is described', async () => {
    const { requestBody } = document.paths['/v1/orders']!.post! as unknown as {
      requestBody: { content: { 'application/json': { examples: Record<string, { value: object }> } } };
    };
    const { required } = document.components!.schemas!.Order as { required: string[] };
    for (const { value } of Object.values(requestBody.content['application/json'].examples)) {
      const { status, body } = await service.as().post('/v1/orders', value);
      expect([status, Object.keys(body as object).sort()]).toEqual([201, [...required].sort()]);
    }
  });

  it('shows batches of a feed that the service takes, and asks for what they need', async () => {
    const { requestBody } = document.paths['/v1/feeds/{feed}/records']!.post! as unknown as {
      requestBody: { content: { 'application/json': { examples: Record<string, { value: object }> } } };
    };
    const { FeedRecord, FeedAcknowledgement } = document.components!.schemas! as Record<string, { required: string[] }>;
    expect(FeedRecord!.required).toContain('externalRef');
    await service.as().send('POST', '/v1/feeds/shown/epochs');
    for (const { value } of Object.values(requestBody.content['application/json'].examples)) {
      const { status, body } = await service.as().send('POST', '/v1/feeds/shown/records', { body: value });
      expect([status, Object.keys(body as object).sort()]).toEqual([200, [...FeedAcknowledgement!.required].sort()]);
    }
  });

  it('has the status, the code and the headers of what is answered', async () => {
    const acme = service.as();
    const order = newOrder({ externalRef: 'web-1' });
    const created = await acme.post('/v1/orders', order, 'key-1');
    const path = created.headers.location!;
    const send = (operation: string, method: string, at: string, request: ApiRequest = {}) =>
      acme.send(method, at, request).then((answer) => ({ operation, answer }));
    const other = newOrder({ externalRef: 'web-1', metadata: { other: 'yes' } });
    const batch = (epoch: number, firstSequence: number) => ({
      ...{ epoch, firstSequence, records: [newOrder({ externalRef: 'web-9' })] },
    });
    const answers = [
      { operation: 'POST /v1/orders', answer: created },
      await send('POST /v1/orders', 'POST', '/v1/orders', { key: 'key-1', body: order }),
      await send('POST /v1/orders', 'POST', '/v1/orders', { key: 'key-1', body: newOrder() }),
      await send('POST /v1/orders', 'POST', '/v1/orders', { key: 'key-2', body: order }),
      await send('POST /v1/orders', 'POST', '/v1/orders', { key: 'key-3', body: {} }),
      await send('POST /v1/orders', 'POST', '/v1/orders', { key: '', body: order }),
      await send('POST /v1/orders', 'POST', '/v1/orders', { body: order }),
      await send('POST /v1/orders', 'POST', '/v1/orders', { body: '{' }),
      await send('POST /v1/orders', 'POST', '/v1/orders', { body: 'x', headers: { 'Content-Type': 'text/plain' } }),
      await send('POST /v1/orders', 'POST', '/v1/orders', { body: ' '.repeat(100_001) }),
      await send('GET /v1/orders', 'GET', '/v1/orders?limit=0'),
      await send('GET /v1/orders/{id}', 'GET', path),
      await send('GET /v1/orders/{id}', 'GET', path, { headers: { 'If-None-Match': '"1"' } }),
      await send('GET /v1/orders/{id}', 'GET', '/v1/orders/nothing'),
      await send('PUT /v1/orders/{id}', 'PUT', path, { body: other }),
      await send('PUT /v1/orders/{id}', 'PUT', path, { body: other, headers: { 'If-Match': '"7"' } }),
      await send('PUT /v1/orders/by-external-ref/{externalRef}', 'PUT', '/v1/orders/by-external-ref/web-2', {
        body: newOrder(),
      }),
      await send('PUT /v1/orders/{id}/status', 'PUT', `${path}/status`, { body: { status: 'cancelled' } }),
      await send('PATCH /v1/orders/{id}', 'PATCH', path, { body: { metadata: {} } }),
      await send('PATCH /v1/orders/{id}', 'PATCH', path, { body: { items: [] }, key: 'key-4' }),
      await send('PATCH /v1/orders/{id}', 'PATCH', path, {
        body: { metadata: { late: 'yes' } },
        headers: { 'If-Match': '"2"' },
      }),
      await send('DELETE /v1/orders/{id}', 'DELETE', path),
      await send('PUT /v1/orders/{id}', 'PUT', path, { body: order }),
      await send('GET /v1/events', 'GET', '/v1/events?after=x'),
      await send('POST /v1/feeds/{feed}/epochs', 'POST', '/v1/feeds/till/epochs'),
      await send('POST /v1/feeds/{feed}/records', 'POST', '/v1/feeds/till/records', { body: batch(1, 1) }),
      await send('POST /v1/feeds/{feed}/records', 'POST', '/v1/feeds/till/records', { body: batch(2, 2) }),
      await send('POST /v1/feeds/{feed}/records', 'POST', '/v1/feeds/till/records', { body: batch(1, 9) }),
      await send('GET /v1/feeds/{feed}', 'GET', '/v1/feeds/till'),
      await send('GET /v1/feeds/{feed}', 'GET', '/v1/feeds/nothing'),
      await send('GET /problems/{code}', 'GET', '/problems/nothing'),
      await send('GET /health/ready', 'GET', '/health/ready'),
    ];

    const known = Object.keys(document.components!.headers!);
    for (const { operation: name, answer } of answers) {
      const { responses } = operations.find((one) => one.name === name)!.operation;
      const described = responses[answer.status] as {
        headers: object;
        content?: Record<string, { examples?: object }>;
      };
      expect([name, answer.status, described !== undefined]).toEqual([name, answer.status, true]);
      const sent = known.filter((header) => answer.headers[header.toLowerCase()] !== undefined);
      expect([name, answer.status, Object.keys(described.headers)]).toEqual([
        name,
        answer.status,
        expect.arrayContaining(sent),
      ]);
      if (answer.status < 400) continue;
      const codes = Object.keys(described.content!['application/problem+json']!.examples!);
      expect([name, codes]).toEqual([name, expect.arrayContaining([answer.body.code])]);
    }
    const statuses = new Set(answers.map(({ answer }) => answer.status));
    expect([...statuses].sort()).toEqual([200, 201, 204, 304, 400, 404, 409, 410, 412, 413, 415, 422, 428]);
  });
});
