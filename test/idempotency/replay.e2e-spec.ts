import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';

describe('a request that arrives again', () => {
  let service: TestApp;
  beforeAll(async () => (service = await TestApp.start()));
  afterAll(() => service.stop());
  beforeEach(() => service.database.clear());

  it('gets the first answer byte for byte, and nothing runs', async () => {
    const first = await service.as().post('/v1/orders', newOrder(), 'k-1');
    const second = await service.as().post('/v1/orders', newOrder(), 'k-1');

    expect(first.status).toBe(201);
    expect(first.headers['idempotent-replayed']).toBeUndefined();
    expect(second.status).toBe(201);
    expect(second.headers['idempotent-replayed']).toBe('true');
    expect(second.bytes).toEqual(first.bytes);
    for (const name of ['content-type', 'location', 'etag', 'idempotency-expires']) {
      expect(first.headers[name]).toBeDefined();
      expect(second.headers[name]).toBe(first.headers[name]);
    }
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});
