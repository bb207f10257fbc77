import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';

const KEYS = 500;
const AT_ONCE = 8;

let service: TestApp;
beforeAll(async () => (service = await TestApp.start({ RATE_LIMIT: '0' })));
afterAll(() => service.stop());

/** What docs/retention.md says that a key takes beside its answer, in bytes. */
async function plannedBesideAnswer(): Promise<number> {
  const page = await readFile(new URL('../../docs/retention.md', import.meta.url), 'utf8');
  const [, kilobytes] = /\(([\d.]+) kB and the answer\)/.exec(page.replace(/\s+/g, ' '))!;
  return Number(kilobytes) * 1_000;
}

describe('M43: a stored key', () => {
  it('takes as many bytes as the guide plans with, its indexes included', async () => {
    let left = KEYS;
    const create = async () => {
      while (left-- > 0) {
        const order = newOrder({ externalRef: randomUUID() });
        expect((await service.as().post('/v1/orders', order, randomUUID())).status).toBe(201);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, create));

    // Without what concurrent writers leave behind and vacuum collects, which is another amount each time.
    await service.database.query('VACUUM FULL idempotency_keys');
    const [measured] = await service.database.query<{ keys: number; bytes: number; answer: number }>(
      `SELECT count(*)::int AS keys, avg(octet_length(response_body))::float8 AS answer,
              pg_total_relation_size('idempotency_keys')::float8 AS bytes FROM idempotency_keys`,
    );
    expect(measured!.keys).toBe(KEYS);
    const besideAnswer = measured!.bytes / KEYS - measured!.answer;
    expect(Math.abs(besideAnswer / (await plannedBesideAnswer()) - 1)).toBeLessThan(0.15);
  });
});
