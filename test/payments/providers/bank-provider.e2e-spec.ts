import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { LookUpFailedError } from '../../../src/payments/providers/payment-provider.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { bankAt, CHARGE, CREATED, GIVE_BACK, PAYMENT, REFUND, TENANT, transfer } from './movements.js';

const ORDER = { ...CHARGE, source: 'DE02120300000000202051' };
const GIVEN_BACK = { id: 'tr_2', reference: REFUND, amount: 500, refundOf: 'pi_1' };

let server: ScriptedServer;

beforeAll(async () => {
  server = await ScriptedServer.start();
});
afterEach(() => server.forget());
afterAll(() => server.stop());

async function answered(status: number, body: unknown, headers: Record<string, string> = {}) {
  server.answer(status, body, headers);
  const answer = await bankAt(server.url).charge(ORDER);
  expect(server.requests).toHaveLength(1);
  return answer;
}

const failure = (error: object): object => ({ error: { message: 'The bank says why', ...error } });

describe('what the bank is sent', () => {
  it('is a transfer that the payment gives its reference, and no key: the bank would know none', async () => {
    await answered(201, transfer());

    const [{ method, path, body, headers }] = server.requests as [(typeof server.requests)[0]];
    expect([method, path]).toEqual(['POST', '/bank/transfers']);
    expect(JSON.parse(body)).toEqual({ reference: PAYMENT, amount: 1_999, currency: 'EUR', account: ORDER.source });
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'content-length': String(body.length) });
    expect(headers).not.toHaveProperty('idempotency-key');
  });

  it('is a transfer back that the refund gives its reference', async () => {
    server.answer(201, transfer(GIVEN_BACK));

    expect(await bankAt(server.url).refund(GIVE_BACK)).toMatchObject({ kind: 'effect', effect: { reference: 'tr_2' } });
    const [{ body }] = server.requests as [(typeof server.requests)[0]];
    expect(JSON.parse(body)).toEqual({ reference: REFUND, amount: 500, currency: 'EUR', refundOf: 'pi_1' });
  });

  it('goes to paths below those of the bank', async () => {
    server.answer(201, transfer());
    await bankAt(`${server.url}/api/v2/`).charge(ORDER);
    expect(server.requests[0]!.path).toBe('/api/v2/bank/transfers');
  });
});

describe('an answer of the bank', () => {
  const money = { amount: 1_999, currency: 'EUR', createdAt: new Date(CREATED * 1_000) };

  it.each(['pending', 'succeeded', 'declined', 'failed'])('shows a transfer that is %s', async (status) => {
    const effect = { reference: 'tr_1', state: status, ...money };
    expect(await answered(201, transfer({ status }))).toEqual({ kind: 'effect', effect });
  });

  it('declines under the reference that it was given, at the time of the bank', async () => {
    const answer = await answered(402, failure({ code: 'insufficient_funds' }), {
      Date: new Date(CREATED * 1_000).toUTCString(),
    });

    const effect = { reference: PAYMENT, state: 'declined', code: 'insufficient_funds', ...money };
    expect(answer).toEqual({ kind: 'effect', effect });
  });

  it.each(['account', 'amount', 'currency'])('refuses the %s that the client sent', async (param) => {
    expect(await answered(400, failure({ code: 'invalid', param }))).toEqual({ kind: 'refused', code: 'invalid' });
  });

  it.each([
    [429, failure({ code: 'slow_down' })],
    [429, '<html></html>'],
  ])('with %d says that nothing has happened: %j', async (status, body) => {
    expect(await answered(status, body)).toMatchObject({ kind: 'not-happened' });
  });

  it.each([
    [201, ''],
    [201, 'null'],
    [201, '<html></html>'],
    [201, JSON.stringify(transfer()).slice(0, -1)],
    [201, {}],
    [201, transfer({ id: '' })],
    [201, transfer({ status: 'done' })],
    [201, transfer({ createdAt: 'today' })],
    [201, transfer({ amount: '1999' })],
    [201, transfer({ amount: 1_998 })],
    [201, transfer({ currency: 'USD' })],
    [201, transfer({ reference: REFUND })],
    [201, transfer({ refundOf: 'tr_0' })],
    [202, transfer()],
    [204, ''],
    [303, transfer()],
    [408, ''],
    [409, failure({ code: 'still_running' })],
    [500, failure({ code: 'insufficient_funds', param: 'amount' })],
    [503, ''],
    [599, transfer()],
  ])('with %d may mean anything: %j', async (status, body) => {
    expect(await answered(status, body)).toMatchObject({ kind: 'unknown' });
  });

  it.each([
    [400, 'unknown_member', failure({ code: 'unknown_member', param: 'reference' })],
    [400, 'http_400', ''],
    [400, 'http_400', failure({ code: 7, param: 'amount' })],
    [401, 'authentication', failure({ code: 'no_key' })],
    [402, 'http_402', '<html>Your plan has ended</html>'],
    [403, 'permission', '<html></html>'],
    [404, 'http_404', '<html></html>'],
    [422, 'duplicate', failure({ code: 'duplicate' })],
  ])('with %d meets a fault of ours: %s', async (status, code, body) => {
    expect(await answered(status, body)).toEqual({ kind: 'fault', code, reason: expect.any(String) });
  });
});

describe('asking the bank', () => {
  const since = new Date(0);
  const charges = () => bankAt(server.url).findCharges({ tenantId: TENANT, paymentId: PAYMENT, since });
  const refunds = () =>
    bankAt(server.url).findRefunds({
      tenantId: TENANT,
      paymentId: PAYMENT,
      since,
      refundId: REFUND,
      chargeRef: 'pi_1',
    });

  it('for charges gives every transfer with the reference of the payment, the oldest first', async () => {
    const later = transfer({ id: 'tr_3', createdAt: '2026-11-30T09:00:00+09:00', status: 'pending' });
    server.answer(200, { data: [later, transfer()] });

    const createdAt = new Date('2026-11-30T00:00:00Z');
    expect(await charges()).toEqual([
      { reference: 'tr_1', state: 'succeeded', amount: 1_999, currency: 'EUR', createdAt: new Date(CREATED * 1_000) },
      { reference: 'tr_3', state: 'pending', amount: 1_999, currency: 'EUR', createdAt },
    ]);
    expect(server.requests).toMatchObject([{ method: 'GET', path: '/bank/transfers' }]);
    expect(Object.fromEntries(server.requests[0]!.query)).toEqual({ reference: PAYMENT });
  });

  it('for refunds gives those with the reference of the refund', async () => {
    server.answer(200, { data: [transfer(GIVEN_BACK)] });

    expect(await refunds()).toMatchObject([{ reference: 'tr_2', state: 'succeeded', amount: 500 }]);
    expect(Object.fromEntries(server.requests[0]!.query)).toEqual({ reference: REFUND });
  });

  it('gives nothing where there is nothing', async () => {
    server.answer(200, { data: [] });
    expect(await charges()).toEqual([]);
    expect(await refunds()).toEqual([]);
  });

  it.each([
    ['an error', 500, {}],
    ['nobody home', 404, failure({ code: 'not_found' })],
    ['another status of success', 202, { data: [] }],
    ['a web page', 200, '<html></html>'],
    ['nothing', 200, ''],
    ['no list', 200, {}],
    ['a list with something in it that is no transfer', 200, { data: [transfer({ status: 'new' })] }],
    ['transfers that were not asked for', 200, { data: [transfer({ reference: TENANT })] }],
    ['a transfer that gives another one back', 200, { data: [transfer({ ...GIVEN_BACK, refundOf: 'tr_7' })] }],
  ])('proves nothing when the answer is %s', async (_answer, status, body) => {
    server.answer(status, body);
    await expect(charges()).rejects.toThrow(LookUpFailedError);
    await expect(refunds()).rejects.toThrow(LookUpFailedError);
  });

  it('proves nothing when nobody answers', async () => {
    server.script = (response) => response.socket!.resetAndDestroy();
    await expect(charges()).rejects.toThrow(LookUpFailedError);
    expect(server.requests).toHaveLength(1);
  });
});
