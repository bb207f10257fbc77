import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Reconciliation } from '../../src/payments/reconciliation.js';
import type { ApiResponse } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';
import { CARD, DECLINED_CARD, PayingApp, TRANSFER } from './paying.js';

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '500ms' })));
afterAll(() => app.stop());
beforeEach(() => app.clear());

const uuid = expect.stringMatching(/^[0-9a-f-]{36}$/);

/** What a key is left with: its answer, nothing, or an operation that the next attempt goes on with. */
type UnderKey = 'stored' | 'released' | 'kept open';

interface Refusal {
  readonly code: string;
  readonly status: number;
  readonly underKey: UnderKey;
  readonly members?: Record<string, unknown>;
  readonly retryAfter?: true;
  /** Provokes it under that key; the second time with the very same request. */
  readonly send: (key: string) => Promise<() => Promise<ApiResponse>>;
}

const paying = async (key: string, body: unknown = CARD) => {
  const orderId = await app.order();
  return () => app.pay(orderId, body, key);
};

const REFUSALS: Refusal[] = [
  {
    ...{ code: 'payment-declined', status: 402, underKey: 'stored' },
    members: { declineCode: 'insufficient_funds', paymentId: uuid },
    send: (key) => paying(key, DECLINED_CARD),
  },
  {
    ...{ code: 'payment-failed', status: 402, underKey: 'stored' },
    members: { paymentId: uuid },
    send: async (key) => {
      const pay = await paying(key, TRANSFER);
      await app.sandbox.arm('bank_transfers.create', 'reset-connection');
      await pay();
      await app.database.query(`UPDATE payments SET sent_at = sent_at - interval '26 hours'`);
      await app.service.app.get(Reconciliation).run();
      return pay;
    },
  },
  {
    ...{ code: 'order-already-paid', status: 409, underKey: 'stored' },
    members: { orderId: uuid },
    send: async (key) => {
      const { orderId } = await app.paid();
      return () => app.pay(orderId, CARD, key);
    },
  },
  {
    ...{ code: 'order-not-payable', status: 409, underKey: 'stored' },
    members: { orderId: uuid },
    send: async (key) => {
      const orderId = await app.order();
      await app.as().put(`/v1/orders/${orderId}/status`, { status: 'cancelled' });
      return () => app.pay(orderId, CARD, key);
    },
  },
  {
    ...{ code: 'payment-in-progress', status: 409, underKey: 'released' },
    ...{ members: { paymentId: uuid }, retryAfter: true },
    send: async (key) => {
      const orderId = await app.order();
      await app.sandbox.arm('payment_intents.create', 'drop-response');
      await app.pay(orderId);
      return () => app.pay(orderId, CARD, key);
    },
  },
  {
    ...{ code: 'duplicate-external-ref', status: 409, underKey: 'stored' },
    members: { refundId: uuid },
    send: async (key) => {
      const { id } = await app.paid();
      await app.refund(id, { amount: 1, reference: 'r-1' });
      return () => app.refund(id, { amount: 1, reference: 'r-1' }, key);
    },
  },
  {
    ...{ code: 'refund-exceeds-payment', status: 422, underKey: 'stored' },
    members: { paymentId: uuid, refundable: 900 },
    send: async (key) => {
      const { id } = await app.paid();
      return () => app.refund(id, { amount: 901 }, key);
    },
  },
  {
    ...{ code: 'payment-outcome-unknown', status: 503, underKey: 'kept open', retryAfter: true },
    send: async (key) => {
      const pay = await paying(key, TRANSFER);
      await app.sandbox.arm('bank_transfers.create', 'reset-connection', { times: 2 });
      return pay;
    },
  },
  {
    ...{ code: 'not-found', status: 404, underKey: 'released' },
    send: async (key) => {
      const orderId = randomUUID();
      return () => app.pay(orderId, CARD, key);
    },
  },
];

describe('a refusal of the routes that move money', () => {
  it.each(REFUSALS)('$status $code is $underKey', async (refusal) => {
    const key = randomUUID();
    const send = await refusal.send(key);
    let answer = await send();
    if (answer.headers['idempotent-replayed']) answer = { ...answer, headers: { ...answer.headers } };
    const { code, status, members = {} } = refusal;
    expect([answer.status, answer.text]).toEqual([status, answer.text]);
    expect(answer.headers['content-type']).toBe('application/problem+json; charset=utf-8');
    expect(answer.body).toEqual({
      type: `http://localhost:${new URL(app.service.baseUrl).port}/problems/${code}`,
      title: expect.any(String),
      status,
      detail: expect.any(String),
      instance: expect.stringMatching(/^\/v1\/(orders|payments)\/[0-9a-f-]{36}\/(payments|refunds)$/),
      code,
      ...members,
    });
    expect(answer.headers['retry-after'] !== undefined).toBe(refusal.retryAfter === true);

    const [record] = await app.database.query<{ status: string; recovery_point: string }>(
      'SELECT status, recovery_point FROM idempotency_keys WHERE key = $1',
      [key],
    );
    const left = { stored: 'completed', released: undefined, 'kept open': 'in_progress' }[refusal.underKey];
    expect(record?.status).toBe(left);
    const before = await app.counts();
    const again = await send();
    expect([again.status, again.body.code, again.headers['idempotent-replayed']]).toEqual([
      status,
      code,
      refusal.underKey === 'stored' ? 'true' : undefined,
    ]);
    if (refusal.underKey === 'stored') expect(again.bytes).toEqual(answer.bytes);
    expect(await app.counts()).toEqual(before);

    const page = await fetch(answer.body.type as string);
    expect([page.status, (await page.text()).includes(code)]).toEqual([200, true]);
  });
});

describe('a provider that is not to be had, or at odds with us', () => {
  let provider: Server;
  let service: TestApp;
  let answer: { status: number; body: unknown };
  let calls = 0;
  beforeAll(async () => {
    provider = createServer((request, response) => {
      request.resume();
      if (request.method === 'POST') calls += 1;
      const list = { object: 'list', data: [], has_more: false };
      const { status, body } = request.method === 'POST' ? answer : { status: 200, body: list };
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body));
    });
    await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
    const sandboxUrl = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
    service = await TestApp.start({}, { sandboxUrl });
  });
  afterAll(async () => {
    await service.stop();
    provider.close();
    provider.closeAllConnections();
  });

  async function pay(): Promise<() => Promise<ApiResponse>> {
    const order = await service.as().post('/v1/orders', { currency: 'EUR', items: [{ sku: 'tea', unitAmount: 450 }] });
    const key = randomUUID();
    return () => service.as().post(`/v1/orders/${order.body.id}/payments`, CARD, key);
  }

  it('429: it did not happen; 503 service-unavailable, and the next try calls again without looking', async () => {
    answer = { status: 429, body: { error: { type: 'rate_limit_error', message: 'slow down' } } };
    const send = await pay();
    calls = 0;
    const first = await send();
    expect([first.status, first.body.code, first.headers['retry-after']]).toEqual([503, 'service-unavailable', '2']);
    await send();
    expect(calls).toBe(2);
    const records = await service.database.query(
      `SELECT recovery_point, recovery_data ->> 'call' AS call FROM idempotency_keys WHERE endpoint = 'payments.create'`,
    );
    expect(records).toEqual([{ recovery_point: 'charge_sent', call: 'none' }]);
    expect(await service.database.count('payments', `status = 'pending'`)).toBe(1);
  });

  it.each([
    [401, { type: 'invalid_request_error', message: 'Invalid API Key' }],
    [403, { type: 'invalid_request_error', message: 'Not permitted' }],
    [400, { type: 'idempotency_error', message: 'Keys can only be used with the same parameters' }],
    [400, { type: 'invalid_request_error', code: 'parameter_unknown', param: 'foo', message: 'unknown' }],
  ])('%d %j is our fault: 500, never a decline, and the payment stays open', async (status, error) => {
    answer = { status, body: { error } };
    const send = await pay();
    const failed = await send();
    expect([failed.status, failed.body.code, failed.body.errorId]).toEqual([500, 'internal-error', uuid]);
    expect(failed.text).not.toContain(error.message);
    const { id } = (await send()).body as { id?: string };
    expect(id).toBeUndefined();
    expect(await service.database.count('payments', `status IN ('declined', 'failed', 'succeeded')`)).toBe(0);
    expect(await service.database.count('outbox', `aggregatetype = 'payment'`)).toBe(0);
  });
});
