import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { OrdersClient } from '../../src/client/index.js';
import { CARD, DECLINED_CARD, PayingApp } from '../payments/paying.js';
import { newOrder } from '../support/api-client.js';
import { ACME } from '../support/test-app.js';
import { all, NEW_ORDER, rejection } from '../unit/client/harness.js';

const NOBODY = '0198c0de-0000-7000-8000-000000000000';

let app: PayingApp;
let client: OrdersClient;
beforeAll(async () => {
  app = await PayingApp.start();
  client = new OrdersClient({ baseUrl: app.service.baseUrl, apiKey: () => ACME.key, backoffBaseMs: 10 });
});
afterAll(() => app.stop());
beforeEach(() => app.clear());

describe('orders', () => {
  it('are created once under a key', async () => {
    const options = { key: randomUUID() };
    const order = await client.createOrder(NEW_ORDER, options);
    expect(await client.createOrder(NEW_ORDER, options)).toEqual(order);
    expect(await client.getOrder(order.id)).toEqual(order);
    expect(await client.getKey(options.key)).toMatchObject([{ endpoint: 'orders.create', status: 'completed' }]);
    expect(await app.database.counts()).toEqual({ orders: 1, events: 1, keys: 1 });
  });

  it('are put under an id of the client', async () => {
    const id = randomUUID();
    const order = await client.putOrder(id, NEW_ORDER);
    expect(order).toMatchObject({ id, version: 1 });
    expect(await client.putOrder(id, NEW_ORDER)).toEqual(order);
    expect(await client.putOrder(id, { ...NEW_ORDER, currency: 'CHF' }, { version: 1 })).toMatchObject({ version: 2 });
    expect(await rejection(client.putOrder(id, NEW_ORDER, { version: 1 }))).toMatchObject({ status: 412, attempts: 1 });
  });

  it('are put under their business key, whatever is in it', async () => {
    const externalRef = 'a/b?c=d#é %2F';
    const order = await client.putOrderByExternalRef(externalRef, NEW_ORDER);
    expect(order).toMatchObject({ externalRef, version: 1 });
    const changed = await client.putOrderByExternalRef(externalRef, { ...NEW_ORDER, metadata: { a: 'b' } });
    expect(changed).toMatchObject({ id: order.id, version: 2 });
    expect(await all(client.listOrders({ externalRef }))).toEqual([changed]);
  });

  it('are changed at the version that was seen, with a key or without', async () => {
    const { id } = await client.createOrder(NEW_ORDER);
    const changed = await client.updateOrder(id, { metadata: { a: '1' } }, { version: 1 });
    expect(changed).toMatchObject({ version: 2, metadata: { a: '1' } });
    const again = await client.updateOrder(id, { metadata: { a: '2' } }, { version: 2, keyed: true });
    expect(again).toMatchObject({ version: 3 });
    expect(await app.database.count('idempotency_keys', `endpoint = 'orders.update'`)).toBe(1);
    expect(await rejection(client.updateOrder(id, { metadata: {} }, { version: 2 }))).toMatchObject({ status: 412 });
  });

  it('are cancelled, and deleted', async () => {
    const { id } = await client.createOrder(NEW_ORDER);
    expect(await client.cancelOrder(id)).toMatchObject({ status: 'cancelled', version: 2 });
    expect(await client.cancelOrder(id)).toMatchObject({ version: 2 });
    await client.deleteOrder(id, { version: 2 });
    expect(await rejection(client.getOrder(id))).toMatchObject({ kind: 'refused', code: 'not-found' });
    expect(await rejection(client.deleteOrder(id))).toMatchObject({ code: 'not-found' });
  });

  it('are refused with the reason', async () => {
    const error = await rejection(client.createOrder({ ...NEW_ORDER, items: [{ sku: 'tea', unitAmount: -1 }] }));
    expect(error).toMatchObject({ kind: 'refused', code: 'validation-failed', attempts: 1 });
    expect(error.problem).toMatchObject({ errors: [{ pointer: '/items/0/unitAmount' }] });
  });

  it('lead nowhere else by their id', async () => {
    await expect(client.getOrder('..')).rejects.toThrow(TypeError);
    expect(await rejection(client.getOrder('../payments'))).toMatchObject({ code: 'not-found' });
  });
});

describe('money', () => {
  it('is taken and given back, once', async () => {
    const order = await client.createOrder(NEW_ORDER);
    const key = randomUUID();
    const payment = await client.payOrder(order.id, { method: 'card', paymentMethod: 'pm_card_visa' }, { key });
    expect(payment).toMatchObject({ orderId: order.id, status: 'succeeded', amount: 900 });
    expect(await client.payOrder(order.id, { method: 'card', paymentMethod: 'pm_card_visa' }, { key })).toEqual(
      payment,
    );
    const refund = await client.refundPayment(payment.id, { amount: 400 });
    const rest = await client.refundPayment(payment.id);
    expect(rest).toMatchObject({ amount: 500 });

    expect(await client.getRefund(refund.id)).toEqual(refund);
    expect(await client.getPayment(payment.id)).toMatchObject({ refundedAmount: 900 });
    expect(await all(client.listPayments(order.id))).toHaveLength(1);
    expect(await all(client.listRefunds(payment.id))).toEqual([refund, rest]);
    expect(await app.counts()).toMatchObject({ payments: 1, refunds: 2, effects: 3 });
  });

  it('is not taken when the provider declines', async () => {
    const order = await client.createOrder(NEW_ORDER);
    const error = await rejection(client.payOrder(order.id, { ...DECLINED_CARD, method: 'card' }));
    expect(error).toMatchObject({ kind: 'refused', status: 402, code: 'payment-declined' });
    expect(error.problem).toMatchObject({ declineCode: 'insufficient_funds' });
  });

  it("is taken once though the provider's reply is lost", async () => {
    const order = await client.createOrder(NEW_ORDER);
    await app.sandbox.arm('payment_intents.create', 'drop-response');
    const waits: number[] = [];
    const patient = new OrdersClient({
      baseUrl: app.service.baseUrl,
      apiKey: ACME.key,
      hooks: { onRetry: ({ reason }) => void waits.push(Number.parseInt(reason, 10)) },
      sleep: async () => undefined,
    });
    expect(await patient.payOrder(order.id, { ...CARD, method: 'card' })).toMatchObject({ status: 'succeeded' });
    expect(waits[0]).toBe(503);
    expect(await app.counts()).toMatchObject({ payments: 1, effects: 1 });
  });
});

describe('lists', () => {
  it('are followed to their end, and no further than is asked for', async () => {
    const made: string[] = [];
    for (let n = 0; n < 5; n += 1) made.push(await app.order());
    expect((await all(client.listOrders({ limit: 2 }))).map(({ id }) => id)).toEqual(made);
    expect(await all(client.listOrders({ status: 'paid' }))).toEqual([]);
    for await (const { id } of client.listOrders({ limit: 2 })) {
      expect(id).toBe(made[0]);
      break;
    }
  });

  it('of what is not there are refused', async () => {
    expect(await rejection(all(client.listPayments(NOBODY)))).toMatchObject({ code: 'not-found' });
  });
});

describe('events', () => {
  it('are read to the present end, and from there on the next time', async () => {
    const first = await app.order();
    for (let n = 0; n < 2; n += 1) await app.order();
    expect((await all(client.events())).map(({ type }) => type)).toEqual(Array(3).fill('order.created'));
    expect(await all(client.events({ subject: first }))).toMatchObject([{ subject: first }]);

    const pages = await all(client.eventPages({ limit: 2 }));
    expect(pages.map(({ data }) => data.length)).toEqual([2, 1, 0]);
    const after = pages.at(-1)!.nextCursor;
    const { body } = await app.as().post('/v1/orders', newOrder());
    expect((await all(client.events({ after }))).map(({ subject }) => subject)).toEqual([body.id]);
  });
});

describe('routes of a fork', () => {
  it('are reached as well', async () => {
    expect(await client.request('GET', '/health/live')).toEqual({ status: 'ok' });
    expect(await client.request('POST', '/v1/orders', { body: NEW_ORDER, keyed: true })).toMatchObject({ version: 1 });
  });
});
