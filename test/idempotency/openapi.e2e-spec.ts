import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { TestApp } from '../support/test-app.js';

interface Operation {
  readonly description?: string;
  readonly parameters?: { name: string; in: string; required: boolean; description?: string; schema?: object }[];
  readonly responses: Record<string, { description: string }>;
  readonly 'x-safe-to-repeat'?: object;
}

describe('M42, B9: the OpenAPI document tells how each route is safe to repeat', () => {
  let service: TestApp;
  let document: { paths: typeof paths };
  let paths: Record<string, Record<string, Operation>>;
  beforeAll(async () => {
    service = await TestApp.start();
    document = (await service.as({ key: '' }).get('/openapi.json')).body;
    ({ paths } = document);
  });
  afterAll(() => service.stop());

  const keyOf = (operation: Operation) => operation.parameters?.find(({ name }) => name === 'Idempotency-Key');

  it('POST /v1/orders requires the Idempotency-Key header and may answer 409 and 422', () => {
    const create = paths['/v1/orders']!.post!;
    expect(keyOf(create)).toMatchObject({
      in: 'header',
      required: true,
      schema: { type: 'string', minLength: 1, maxLength: 255 },
    });
    expect(create.responses['409']!.description).toContain('idempotency-key-in-use');
    expect(create.responses['422']!.description).toContain('idempotency-key-reused');
    expect(create.responses['201']).toBeDefined();
    expect(create['x-safe-to-repeat']).toEqual({ by: 'key', endpoint: 'orders.create', key: 'required' });
  });

  it('PATCH /v1/orders/{id} takes one, and does not require it', () => {
    const change = paths['/v1/orders/{id}']!.patch!;
    expect(keyOf(change)).toMatchObject({ in: 'header', required: false });
    expect(change.responses['409']).toBeDefined();
    expect(change.responses['422']).toBeDefined();
    expect(change['x-safe-to-repeat']).toEqual({ by: 'key', endpoint: 'orders.update', key: 'optional' });
  });

  it('no other route mentions the header, and every route that changes something says why it may be repeated', () => {
    for (const [path, operations] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(operations)) {
        const by = (operation['x-safe-to-repeat'] as { by: string } | undefined)?.by;
        expect([path, method, keyOf(operation) !== undefined]).toEqual([path, method, by === 'key']);
        expect([path, method, by !== undefined]).toEqual([path, method, method !== 'get']);
      }
    }
  });

  it('M12: and how long a key is kept', () => {
    expect(/24 ?h|86,?400|Idempotency-Expires|retention/i.test(JSON.stringify(document))).toBe(true);
  });
});
