import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';
import { FEED, openEpoch, outcomeOf, records, sendBatch } from './feeding.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(async () => {
  await service.database.clear();
  await openEpoch(service);
});

const PATH = `/v1/feeds/${FEED}/records`;
const MAX = Number.MAX_SAFE_INTEGER;
const post = (body: unknown, headers = {}, path = PATH) => service.as().send('POST', path, { body, headers });
const batch = (different: Record<string, unknown> = {}) => ({
  ...{ epoch: 1, firstSequence: 1, records: records(1, 2) },
  ...different,
});
const paddedTo = (bytes: number) => {
  const text = JSON.stringify(batch());
  return Buffer.from(text + ' '.repeat(bytes - text.length));
};
const untouched = async () => {
  expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  expect(await service.database.count('feed_batches')).toBe(0);
};

describe('a batch that is not valid is refused as a whole, and each fault has its place', () => {
  it.each<[string, unknown, string[]]>([
    ['nothing at all', {}, ['/epoch', '/firstSequence', '/records']],
    ['an unknown member', batch({ feed: FEED }), ['/feed']],
    ['an epoch of 0', batch({ epoch: 0 }), ['/epoch']],
    ['an epoch in quotes', batch({ epoch: '1' }), ['/epoch']],
    ['a number of 0', batch({ firstSequence: 0 }), ['/firstSequence']],
    ['a number of 1.5', batch({ firstSequence: 1.5 }), ['/firstSequence']],
    ['numbers beyond 2^53 - 1', batch({ firstSequence: MAX }), ['/firstSequence']],
    ['no record', batch({ records: [] }), ['/records']],
    ['501 records', batch({ records: records(1, 501) }), ['/records']],
    ['records that are no list', batch({ records: records(1, 1)[0] }), ['/records']],
    ['a record that is none', batch({ records: [...records(1, 1), null, 'x'] }), ['/records/1', '/records/2']],
    ['a record without a reference', batch({ records: [newOrder()] }), ['/records/0/externalRef']],
    ['a reference that is null', batch({ records: records(1, 1, { externalRef: null }) }), ['/records/0/externalRef']],
    ['an empty reference', batch({ records: records(1, 1, { externalRef: '' }) }), ['/records/0/externalRef']],
    ['an unknown member of a record', batch({ records: records(1, 1, { total: 1 }) }), ['/records/0/total']],
    [
      'what orders may not be, in several records',
      batch({
        records: [
          ...records(1, 1, { currency: 'ZZZ' }),
          ...records(2, 2, { items: [{ sku: 'tea', quantity: 0, unitAmount: 1 }] }),
          ...records(3, 3, { metadata: { a: 1 } }),
        ],
      }),
      ['/records/0/currency', '/records/1/items/0/quantity', '/records/2/metadata'],
    ],
    [
      'totals out of range',
      batch({
        records: [
          ...records(1, 1, { items: [{ sku: 'tea', unitAmount: 0 }] }),
          ...records(2, 2),
          ...records(3, 3, { items: [{ sku: 'tea', quantity: MAX, unitAmount: 2 }] }),
        ],
      }),
      ['/records/0/items', '/records/2/items'],
    ],
    [
      'one reference several times',
      batch({ records: [...records(1, 2), ...records(1, 1), ...records(3, 3), ...records(1, 1)] }),
      ['/records/2/externalRef', '/records/4/externalRef'],
    ],
  ])('%s', async (_, body, pointers) => {
    const answer = await post(body);

    expect([answer.status, answer.body.code]).toEqual([400, 'validation-failed']);
    const errors = answer.body.errors as { pointer: string }[];
    expect(errors.map(({ pointer }) => pointer).sort()).toEqual([...pointers].sort());
    await untouched();
  });

  it.each(['', 'null', '[]', '{', '{"epoch":1,"epoch":1}'])('or no batch at all: %s', async (body) => {
    expect((await post(body)).status).toBe(400);
    await untouched();
  });

  it('is looked at before the state of the feed is', async () => {
    expect((await post(batch({ epoch: 9, firstSequence: 7, records: [] }))).status).toBe(400);
  });
});

describe('the name of a feed', () => {
  it.each(['x', 'a-b', '-', '0', 'x'.repeat(64)])('may be %s', async (name) => {
    expect(await openEpoch(service, name)).toBe(1);
    expect(outcomeOf(await sendBatch(service, 1, 1, 1, name))).toEqual([200, 1, 1, 0]);
    expect((await service.as().get(`/v1/feeds/${name}`)).body).toEqual({ feed: name, epoch: 1, lastSequence: 1 });
  });

  it.each(['X', 'a_b', 'a.b', 'ä', '%20', 'a%0A', '%00', 'x'.repeat(65)])('is none of a feed: %s', async (name) => {
    const at = `/v1/feeds/${encodeURIComponent(decodeURIComponent(name))}`;
    const answers = [
      await service.as().send('POST', `${at}/epochs`),
      await post(batch(), {}, `${at}/records`),
      await service.as().get(at),
    ];
    expect(answers.map(({ status, body }) => [status, body.code])).toEqual(Array(3).fill([404, 'not-found']));
    expect(await service.database.count('feeds')).toBe(1);
    await untouched();
  });

  it('names nothing before an epoch was opened', async () => {
    const { status, body } = await service.as().get('/v1/feeds/unknown');
    expect([status, body.code]).toEqual([404, 'not-found']);
  });
});

describe('a large batch', () => {
  it('may have 5 MB, and no byte more', async () => {
    const answer = await post(paddedTo(5_000_001));
    expect([answer.status, answer.body.code]).toEqual([413, 'payload-too-large']);
    await untouched();

    expect(outcomeOf(await post(paddedTo(5_000_000)))).toEqual([200, 2, 2, 0]);
  });

  it('is measured as it is, not as it is compressed', async () => {
    const encoded = { 'Content-Encoding': 'gzip' };
    expect((await post(gzipSync(paddedTo(5_000_001)), encoded)).status).toBe(413);
    expect((await post(gzipSync(paddedTo(5_000_000)), encoded)).status).toBe(200);
  });

  it.each([`/v1/feeds/${FEED}/epochs`, '/v1/orders'])('is one for records only: %s', async (path) => {
    expect((await post(paddedTo(100_001), { 'Idempotency-Key': 'k' }, path)).status).toBe(413);
  });

  it('of 500 orders with 100 items each is applied, and found again', async () => {
    const items = Array.from({ length: 100 }, (_, n) => ({ sku: `TEA-${n}-${'x'.repeat(30)}`, unitAmount: 1250 + n }));
    const body = Buffer.from(JSON.stringify(batch({ records: records(1, 500, { items }) })));
    expect(body.length).toBeGreaterThan(3_000_000);

    expect(outcomeOf(await post(body))).toEqual([200, 500, 500, 0]);
    expect(outcomeOf(await post(body))).toEqual([200, 500, 0, 500]);
    expect(await service.database.counts()).toEqual({ orders: 500, events: 500, keys: 0 });
  });
});
