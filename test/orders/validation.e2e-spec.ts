import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type ApiResponse, newOrder } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';
import { createOrder } from './order-effects.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());
beforeEach(() => service.database.clear());

const item = (different: Record<string, unknown> = {}) => ({ sku: 'tea', quantity: 2, unitAmount: 450, ...different });
const members = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`m${n}`, 'x']));
const MAX = Number.MAX_SAFE_INTEGER;

type Case = [name: string, body: unknown, pointers: string[]];

const ORDERS: Case[] = [
  ['an unknown member', newOrder({ total: 1 }), ['/total']],
  ['a member called constructor', newOrder({ constructor: {} }), ['/constructor']],
  ['a member called toString', newOrder({ toString: 'x' }), ['/toString']],
  ['a member whose name needs escaping', newOrder({ 'a/b~c': 1 }), ['/a~1b~0c']],
  ['an unknown member of an item', newOrder({ items: [item(), item({ color: 'red' })] }), ['/items/1/color']],
  ['a member of an item called constructor', newOrder({ items: [item({ constructor: 1 })] }), ['/items/0/constructor']],
  ['what the service decides', newOrder({ id: 'x', status: 'paid' }), ['/id', '/status']],

  ['an external reference that is null', newOrder({ externalRef: null }), ['/externalRef']],
  ['metadata that is null', newOrder({ metadata: null }), ['/metadata']],
  ['a client context that is null', newOrder({ clientContext: null }), ['/clientContext']],
  ['a quantity that is null', newOrder({ items: [item({ quantity: null })] }), ['/items/0/quantity']],

  ['no items', { currency: 'EUR' }, ['/items']],
  ['no currency', { items: [item()] }, ['/currency']],
  ['nothing at all', {}, ['/currency', '/items']],
  ['items that are no list', newOrder({ items: item() }), ['/items']],
  ['an empty list of items', newOrder({ items: [] }), ['/items']],
  ['101 items', newOrder({ items: Array(101).fill(item()) }), ['/items']],
  ['an item that is text', newOrder({ items: [item(), item(), item(), 'tea'] }), ['/items/3']],
  ['an item that is null', newOrder({ items: [null] }), ['/items/0']],
  ['a list of lists', newOrder({ items: [[item()], [item()]] }), ['/items/0', '/items/1']],

  ['no sku', newOrder({ items: [{ quantity: 1, unitAmount: 1 }] }), ['/items/0/sku']],
  ['an empty sku', newOrder({ items: [item({ sku: '' })] }), ['/items/0/sku']],
  ['a sku of 101 characters', newOrder({ items: [item({ sku: 's'.repeat(101) })] }), ['/items/0/sku']],
  ['a quantity of 0', newOrder({ items: [item({ quantity: 0 })] }), ['/items/0/quantity']],
  ['a quantity of 1.5', newOrder({ items: [item({ quantity: 1.5 })] }), ['/items/0/quantity']],
  ['a quantity in quotes', newOrder({ items: [item({ quantity: '1' })] }), ['/items/0/quantity']],
  ['a quantity of true', newOrder({ items: [item({ quantity: true })] }), ['/items/0/quantity']],
  ['no unit amount', newOrder({ items: [{ sku: 'tea' }] }), ['/items/0/unitAmount']],
  ['a unit amount of -1', newOrder({ items: [item({ unitAmount: -1 })] }), ['/items/0/unitAmount']],
  ['a unit amount of 4.5', newOrder({ items: [item({ unitAmount: 4.5 })] }), ['/items/0/unitAmount']],

  ['a currency in small letters', newOrder({ currency: 'eur' }), ['/currency']],
  ['a currency that does not exist', newOrder({ currency: 'ZZZ' }), ['/currency']],
  ['a currency that is a number', newOrder({ currency: 978 }), ['/currency']],

  ['a total of 0', newOrder({ items: [item({ unitAmount: 0 })] }), ['/items']],
  [
    'a total beyond 2^53 - 1 by one',
    newOrder({ items: [item({ quantity: 1, unitAmount: MAX }), item({ quantity: 1, unitAmount: 1 })] }),
    ['/items'],
  ],
  [
    'a total that a double would round down',
    newOrder({ items: [item({ quantity: MAX, unitAmount: MAX })] }),
    ['/items'],
  ],

  ['an empty external reference', newOrder({ externalRef: '' }), ['/externalRef']],
  ['an external reference of 256 characters', newOrder({ externalRef: 'r'.repeat(256) }), ['/externalRef']],
  ['an external reference that is a number', newOrder({ externalRef: 42 }), ['/externalRef']],
  ['metadata of 51 members', newOrder({ metadata: members(51) }), ['/metadata']],
  ['metadata with a number', newOrder({ metadata: { n: 1 } }), ['/metadata']],
  ['metadata with an object called constructor', newOrder({ metadata: { constructor: {} } }), ['/metadata']],
  ['metadata that is a list', newOrder({ metadata: ['x'] }), ['/metadata']],
  ['a client context that is text', newOrder({ clientContext: 'now' }), ['/clientContext']],
  ['a client context that is a list', newOrder({ clientContext: [] }), ['/clientContext']],

  [
    'several faults, all told at once',
    newOrder({ currency: 'eur', items: [item({ sku: 1, quantity: 0 })], metadata: 1, extra: 1 }),
    ['/extra', '/currency', '/items/0/sku', '/items/0/quantity', '/metadata'],
  ],

  ['a list', [newOrder()], ['']],
  ['a text', '"order"', ['']],
  ['null', 'null', ['']],
  ['no body', undefined, ['']],
];

const EDITS: Case[] = [
  ['an unknown member', { currency: 'EUR' }, ['/currency']],
  ['a member called constructor', { constructor: 1 }, ['/constructor']],
  ['items that are null', { items: null }, ['/items']],
  ['an empty list of items', { items: [] }, ['/items']],
  ['an item that is a number', { items: [item(), 7] }, ['/items/1']],
  ['a quantity of 0', { items: [item({ quantity: 0 })] }, ['/items/0/quantity']],
  ['a total of 0', { items: [item({ unitAmount: 0 })] }, ['/items']],
  ['metadata that is null', { metadata: null }, ['/metadata']],
  ['metadata with a number', { metadata: { a: 1 } }, ['/metadata']],
  ['a list', [], ['']],
  ['no body', undefined, ['']],
];

const ASSIGNMENTS: Case[] = [
  ['another status', { status: 'paid' }, ['/status']],
  ['a status that is null', { status: null }, ['/status']],
  ['no status', {}, ['/status']],
  ['an unknown member', { status: 'cancelled', reason: 'x' }, ['/reason']],
  ['no body', undefined, ['']],
];

function expectRefusal({ status, body, text }: ApiResponse, pointers: string[]): void {
  expect([status, body?.code, text]).toEqual([400, 'validation-failed', text]);
  const errors = body.errors as { pointer: string; detail: string }[];
  expect(errors.map(({ pointer }) => pointer).sort()).toEqual([...pointers].sort());
  for (const { detail } of errors) expect(detail).toMatch(/\w+ \w+/);
}

describe('a new order that is not valid is refused with the place of each fault', () => {
  it.each(ORDERS)('POST: %s', async (_name, body, pointers) => {
    expectRefusal(await service.as().post('/v1/orders', body, 'k-1'), pointers);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 1 });
    expect((await service.as().post('/v1/orders', body, 'k-1')).headers['idempotent-replayed']).toBe('true'); // K9
  });

  it.each(ORDERS)('PUT by id and by external reference: %s', async (_name, body, pointers) => {
    expectRefusal(await service.as().put(`/v1/orders/${randomUUID()}`, body), pointers);
    expectRefusal(await service.as().put('/v1/orders/by-external-ref/web-1', body), pointers);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });

  it.each([
    ['at the top', '{"currency":"EUR","items":[{"sku":"tea","unitAmount":1}],"__proto__":{"externalRef":"x"}}'],
    ['in metadata', '{"currency":"EUR","items":[{"sku":"tea","unitAmount":1}],"metadata":{"__proto__":"x"}}'],
    ['in an item', '{"currency":"EUR","items":[{"sku":"tea","unitAmount":1,"__proto__":{"quantity":2}}]}'],
  ])('a member called __proto__ %s is malformed JSON, and no key is touched', async (_where, body) => {
    const { status, body: problem } = await service.as().post('/v1/orders', body, 'k-1');

    expect([status, problem.code]).toEqual([400, 'malformed-json']);
    expect(await service.database.counts()).toEqual({ orders: 0, events: 0, keys: 0 });
  });
});

describe('a change that is not valid is refused and changes nothing', () => {
  it.each(EDITS)('PATCH: %s', async (_name, body, pointers) => {
    const { id } = await createOrder(service);

    expectRefusal(await service.as().patch(`/v1/orders/${id}`, body, { 'If-Match': '"1"' }), pointers);
    expect((await service.as().get(`/v1/orders/${id}`)).headers.etag).toBe('"1"');
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it.each(EDITS)(
    'PATCH is judged before the order is looked for, and before its version: %s',
    async (_name, body, pointers) => {
      const { id } = await createOrder(service);

      expectRefusal(await service.as().patch(`/v1/orders/${randomUUID()}`, body), pointers);
      expectRefusal(await service.as().patch(`/v1/orders/${id}`, body), pointers);
      expectRefusal(await service.as().patch(`/v1/orders/${id}`, body, { 'If-Match': '"7"' }), pointers);
      expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
    },
  );

  it.each(ASSIGNMENTS)('PUT status: %s', async (_name, body, pointers) => {
    const { id } = await createOrder(service);

    expectRefusal(await service.as().put(`/v1/orders/${id}/status`, body), pointers);
    expect((await service.as().get(`/v1/orders/${id}`)).body.status).toBe('pending');
    expect(await service.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });
});
