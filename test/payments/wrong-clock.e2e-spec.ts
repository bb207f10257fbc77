import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call } from '../support/http-proxy.js';
import { waitFor } from '../support/wait-for.js';
import { TRANSFER } from './paying.js';
import { type MoneyRequest, PayingProcesses } from './paying-processes.js';
import { CARD_PAYMENT, expectOneOutcome, expectReplay, finalAnswer } from './struck-courses.js';
import { clockOff } from './shifted-clock.js';

const MINUTES = 60_000;
/** Half of what the clock is off by: whoever went by it would be wrong about each of them. */
const RETENTION = '5m';

describe.each([
  ['ten minutes ahead', 10 * MINUTES],
  ['ten minutes behind', -10 * MINUTES],
])('M14: a process whose clock is %s', (_, off) => {
  let processes: PayingProcesses;
  let amount = 1_000;
  beforeAll(async () => {
    const short = { IDEMPOTENCY_RETENTION: RETENTION, IDEMPOTENCY_CLEANUP_INTERVAL: '100ms' };
    processes = await PayingProcesses.start(short);
    await processes.replaceOther({
      NODE_OPTIONS: `--import ${clockOff(off)}`,
      RECONCILIATION_INTERVAL: '100ms',
      RECONCILIATION_GIVE_UP: '5m',
      IDEMPOTENCY_WAIT: '200ms',
      STRIPE_API_BASE: processes.provider.url,
      BANK_API_BASE: processes.provider.url,
    });
  }, 60_000);
  afterAll(() => processes.stop());

  const keyRow = async ({ key }: MoneyRequest) => {
    const [row] = await processes.database.query<{ version: number; status: string; expires_at: Date | null }>(
      'SELECT version, status, expires_at FROM idempotency_keys WHERE key = $1',
      [key],
    );
    return row;
  };
  /** Three runs of the reconciliation begin from now on. */
  const reconciliations = async () => {
    for (let runs = 0; runs < 3; runs++) {
      await processes.provider.once(call.isMade('GET', '/v1/payment_intents'), 'pass');
    }
  };

  it('is off by that, indeed', async () => {
    const id = await processes.order(amount); // of UUID version 7: it begins with the milliseconds of who made it
    const shown = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
    expect(Math.abs(shown - Date.now() - off)).toBeLessThan(MINUTES);
  });

  it('takes no live lease over, and one that has lapsed', async () => {
    amount += 1;
    const request = await CARD_PAYMENT.prepare(processes, amount);
    const charge = processes.provider.hold(call.isMade('POST', CARD_PAYMENT.call.path));
    const first = processes.send(processes.owner, request).catch(() => undefined);
    await charge.reached;

    const meanwhile = await processes.send(processes.other, request);
    expect([meanwhile.status, meanwhile.json.code]).toEqual([409, 'idempotency-key-in-use']);
    expect(await keyRow(request)).toMatchObject({ version: 1, status: 'in_progress' });
    expect(await processes.sandbox.calls()).toEqual([]);

    await processes.owner.kill();
    charge.release('cut');
    await first;
    const finished = await finalAnswer(processes, processes.other, request);
    expect(await expectOneOutcome(processes, CARD_PAYMENT, amount, request, finished)).toBe('moved');
    expect((await keyRow(request))!.version).toBeGreaterThan(1);
    processes.owner = await processes.startOwner();
  });

  it('keeps its own lease while a process with the right clock waits', async () => {
    amount += 1;
    const request = await CARD_PAYMENT.prepare(processes, amount);
    const charge = processes.provider.hold(call.isMade('POST', CARD_PAYMENT.call.path));
    const first = processes.send(processes.other, request);
    await charge.reached;
    const waiting = processes.send(processes.owner, request);
    charge.release();
    const answer = await first;
    expect(answer.status).toBe(201);
    expect((await waiting).text).toBe(answer.text);
    expect(await keyRow(request)).toMatchObject({ version: 1 });
    expect(await expectOneOutcome(processes, CARD_PAYMENT, amount, request, answer)).toBe('moved');
  });

  it('lets an answer expire when the database says so, and not before', async () => {
    amount += 1;
    const request = await CARD_PAYMENT.prepare(processes, amount);
    const answer = await finalAnswer(processes, processes.other, request);
    const { expires_at: expiresAt } = (await keyRow(request))!;
    expect(new Date(answer.headers['idempotency-expires']!).getTime()).toBe(expiresAt!.getTime());
    const [{ left }] = (await processes.database.query<{ left: number }>(
      `SELECT extract(epoch FROM expires_at - statement_timestamp())::float8 AS left FROM idempotency_keys WHERE key = $1`,
      [request.key],
    )) as [{ left: number }];
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(300);
    await reconciliations(); // the cleanup has run as often
    await expectReplay(processes, processes.other, request, answer);

    await processes.database.query(
      `UPDATE idempotency_keys SET expires_at = statement_timestamp() - interval '1 second' WHERE key = $1`,
      [request.key],
    );
    const anew = await processes.send(processes.other, request);
    expect([anew.status, anew.json.code]).toEqual([409, 'order-already-paid']);
    expect(anew.headers['idempotent-replayed']).toBeUndefined();
  });

  it('gives up a payment, and asks for a review, when the database says so, and not before', async () => {
    amount += 1;
    const orderId = await processes.order(amount);
    const request = { path: `/v1/orders/${orderId}/payments`, body: TRANSFER, key: randomUUID() };
    const lost = processes.provider.once(call.isMade('POST', '/bank/transfers'), 'cut');
    expect((await processes.send(processes.owner, request)).status).toBe(503);
    await lost;
    const age = (interval: string) =>
      processes.database.query(
        `WITH sent AS (UPDATE payments SET sent_at = sent_at - $1::interval WHERE order_id = $2)
         UPDATE idempotency_keys SET created_at = created_at - $1::interval WHERE key = $3`,
        [interval, orderId, request.key],
      );
    const pending = () => processes.database.count('payments', `order_id = $1 AND status = 'pending'`, [orderId]);

    await age('4 minutes');
    await reconciliations();
    expect(await pending()).toBe(1);
    expect(await processes.database.count('payment_reviews')).toBe(0);

    await age('1 minute');
    await waitFor(async () => (await pending()) === 0, { description: 'the payment to be given up' });
    const answer = await finalAnswer(processes, processes.other, request);
    expect([answer.status, answer.json.code]).toEqual([402, 'payment-failed']);
    await expectReplay(processes, processes.owner, request, answer);
    expect((await processes.sandbox.effects()).filter((effect) => effect.amount === amount)).toEqual([]);
  });
});
