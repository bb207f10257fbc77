import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { TestSandbox } from '../support/test-sandbox.js';
import { waitFor } from '../support/wait-for.js';

let provider: TestSandbox;
beforeAll(async () => {
  provider = await TestSandbox.start();
});
afterAll(async () => {
  expect(provider.errors).toEqual([]);
  await provider.stop();
});

const ACCOUNT = 'DE89370400440532013000';
const collection = (different: object = {}) => ({
  reference: randomUUID(),
  amount: 1_000,
  currency: 'EUR',
  account: ACCOUNT,
  ...different,
});
const transfer = (body: unknown, key?: string) => provider.http.post('/bank/transfers', body, key);
const find = (reference: string) => provider.http.get(`/bank/transfers?reference=${encodeURIComponent(reference)}`);
const made = () => provider.database.count('sandbox.bank_transfers');

describe('the bank', () => {
  it('collects, and shows what it did by reference', async () => {
    const wanted = collection({ reference: 'a b&c=ä' });
    const { status, body } = await transfer(wanted);

    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.stringMatching(/^tr_\w+$/),
      reference: 'a b&c=ä',
      amount: 1_000,
      currency: 'EUR',
      status: 'succeeded',
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
    });
    expect((await find('a b&c=ä')).body).toEqual({ data: [body] });
    expect((await find('nothing')).body).toEqual({ data: [] });
    const { effects, calls } = await provider.ledger();
    expect(effects.at(-1)).toMatchObject({
      operation: 'bank_transfers.create',
      reference: 'a b&c=ä',
      amount: 1_000,
      currency: 'EUR',
      idempotencyKey: null,
    });
    expect(calls.at(-1)).toMatchObject({ operation: 'bank_transfers.create', idempotencyKey: null, status: 201 });
  });

  it('knows no keys: the same call again is a second transfer, oldest first', async () => {
    const wanted = collection();
    const first = await transfer(wanted, 'same');
    const second = await transfer(wanted, 'same');

    expect([first.status, second.status]).toEqual([201, 201]);
    expect((await find(wanted.reference)).body).toEqual({ data: [first.body, second.body] });
    const { effects } = await provider.ledger();
    expect(effects.filter(({ reference }) => reference === wanted.reference).length).toBe(2);
  });

  it('gives back of a transfer, never more than it collected, however many ask at once', async () => {
    const { id: refundOf } = (await transfer(collection())).body;
    const others = await provider.database.connect();
    await others.query('BEGIN');
    await others.query('SELECT FROM sandbox.bank_transfers WHERE id = $1 FOR UPDATE', [refundOf]);
    const asked = Promise.all(
      Array.from({ length: 15 }, () => transfer(collection({ account: undefined, refundOf, amount: 400 }))),
    );
    const waiting = () =>
      provider.database.count('pg_stat_activity', `datname = current_database() AND wait_event_type = 'Lock'`);
    await waitFor(async () => (await waiting()) >= 5, { description: 'five that give back at the same moment' });
    await others.query('COMMIT');
    await others.end();
    const answers = await asked;

    expect(answers.map(({ status }) => status).sort()).toEqual([201, 201, ...Array<number>(13).fill(400)]);
    const given = answers.find(({ status }) => status === 201)!.body;
    expect(given).toMatchObject({ refundOf, amount: 400, status: 'succeeded' });
    const refused = answers.find(({ status }) => status === 400)!.body;
    expect(refused.error).toMatchObject({ code: 'amount_too_large', param: 'amount' });
    expect((await transfer(collection({ account: undefined, refundOf, amount: 200 }))).status).toBe(201);
    expect((await transfer(collection({ account: undefined, refundOf: given.id, amount: 1 }))).status).toBe(400);
  });

  it('declines an account that is closed: a call, and no effect', async () => {
    const before = await provider.ledger();
    const { status, body } = await transfer(collection({ account: 'DE00CLOSED0000' }));

    expect([status, body.error.code]).toEqual([402, 'account_closed']);
    const after = await provider.ledger();
    expect(after.effects).toEqual(before.effects);
    expect(after.calls.length).toBe(before.calls.length + 1);
  });

  it.each([
    [{ account: 'nonsense' }, 'account_invalid', 'account'],
    [{ account: 'de89370400440532013000' }, 'account_invalid', 'account'],
    [{ account: 'DE8937040' }, 'account_invalid', 'account'],
    [{ account: 7 }, 'parameter_invalid', 'account'],
    [{ account: undefined }, 'parameter_invalid', 'account'],
    [{ refundOf: 'tr_nothing' }, 'parameter_invalid', 'account'],
    [{ account: undefined, refundOf: 'tr_nothing' }, 'transfer_unknown', 'refundOf'],
    [{ amount: 0 }, 'parameter_invalid', 'amount'],
    [{ amount: 1.5 }, 'parameter_invalid', 'amount'],
    [{ amount: '1000' }, 'parameter_invalid', 'amount'],
    [{ amount: 1e300 }, 'parameter_invalid', 'amount'],
    [{ currency: 'eur' }, 'currency_invalid', 'currency'],
    [{ currency: 'EURO' }, 'parameter_invalid', 'currency'],
    [{ reference: '' }, 'parameter_invalid', 'reference'],
    [{ reference: 'a\0b' }, 'parameter_invalid', 'reference'],
    [{ reference: '\ud800' }, 'parameter_invalid', 'reference'],
    [{ reference: 'x'.repeat(141) }, 'parameter_invalid', 'reference'],
    [{ reference: null }, 'parameter_invalid', 'reference'],
    [{ note: 'hello' }, 'parameter_invalid', 'note'],
  ])('refuses %j', async (different, code, param) => {
    const before = await made();
    const { status, body } = await transfer(collection(different));

    expect([status, body.error]).toEqual([400, { code, param, message: expect.any(String) }]);
    expect(await made()).toBe(before);
  });

  it('refuses what is no JSON object, another currency, and a question without a reference', async () => {
    for (const body of ['', '{', '[]', 'null', '"x"', Buffer.from([0xff])]) {
      expect((await transfer(body)).body.error).toMatchObject({ code: 'malformed_json' });
    }
    const { id: refundOf } = (await transfer(collection())).body;
    const other = await transfer(collection({ account: undefined, refundOf, currency: 'USD' }));
    expect([other.status, other.body.error.code]).toEqual([400, 'currency_invalid']);
    for (const path of ['', '?reference=', '?ref=x', '?reference=%00', '?reference=a&limit=1']) {
      expect((await provider.http.get(`/bank/transfers${path}`)).status).toBe(400);
    }
  });
});
