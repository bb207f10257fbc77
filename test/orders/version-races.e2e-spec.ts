import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type ApiResponse, newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';
import { createOrder, tally } from './order-effects.js';
import { seeded } from './seeded.js';

const EDITORS = 8;
const EDITS = 1_000;

let service: TestApp;
beforeAll(async () => (service = await TestApp.start({ RATE_LIMIT: '0' })));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

describe('editors who change one order at the same time (K19)', () => {
  it(`never lose each other's change: ${EDITS} edits by ${EDITORS} editors, each reading first`, () =>
    seeded(async (random) => {
      const { id } = await createOrder(service);
      const path = `/v1/orders/${id}`;
      const answers: ApiResponse[] = [];
      let begun = 0;

      /** Reads, and changes what it has read, in one of three ways; sometimes on a copy that is older than its last edit. */
      const editor = async (): Promise<void> => {
        let read = await service.as().get(path);
        while (begun < EDITS) {
          const edit = begun++;
          if (random() < 0.8) read = await service.as().get(path);
          const headers = { 'If-Match': read.headers.etag! };
          const metadata = { edit: `${edit}` };
          const items = [{ sku: 'tea', quantity: edit + 1, unitAmount: 1 }];
          const way = random();
          if (way < 0.6) answers.push(await service.as().patch(path, { metadata }, headers));
          else if (way < 0.8) answers.push(await service.as().patch(path, { items }, headers));
          else answers.push(await service.as().put(path, newOrder({ metadata }), headers));
        }
      };
      await Promise.all(Array.from({ length: EDITORS }, editor));

      expect(Object.keys(tally(answers))).toEqual(['200', '412']);
      // Every 200 has made exactly one version, and each version is the work of exactly one of them.
      const changed = answers.filter(({ status }) => status === 200).sort((a, b) => a.body.version - b.body.version);
      expect(changed.map(({ body }) => body.version)).toEqual(changed.map((_, index) => index + 2));
      expect(changed.length).toBeGreaterThan(EDITS / 20);
      const final = (await service.as().get(path)).body;
      expect(final).toEqual(changed.at(-1)!.body);
      const events = await service.database.query<{ version: number; data: unknown }>(
        'SELECT aggregateversion AS version, payload AS data FROM outbox WHERE aggregateversion > 1 ORDER BY 1',
      );
      expect(events).toEqual(changed.map(({ body }) => ({ version: body.version, data: body })));
      expect(await service.database.counts()).toEqual({ orders: 1, events: final.version, keys: 1 });
    }));
});
