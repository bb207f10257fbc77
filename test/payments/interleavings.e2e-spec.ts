import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Reconciliation } from '../../src/payments/reconciliation.js';
import type { ApiResponse } from '../support/api-client.js';
import { waitFor } from '../support/wait-for.js';
import { expectReplayOf } from '../idempotency/expect-replay-of.js';
import { holdRows } from './held-rows.js';
import { CARD, PayingApp, TRANSFER } from './paying.js';

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start({ PROVIDER_TIMEOUT: '3s', RECONCILIATION_INTERVAL: '1h' })));
afterAll(() => app.stop());
beforeEach(() => app.clear());

const PAID = { payments: 1, refunds: 0, movements: 1, events: 1, effects: 1, keys: 1 };
/** Milliseconds by which a reply comes after its effect: enough to be faster, on a busy machine too. */
const LATE = 900;
const HUNDRED = { items: [{ sku: 'tea', unitAmount: 100 }] };
const MEANS = [
  { how: 'by card', means: CARD, charge: 'payment_intents.create', giveBack: 'refunds.create' },
  { how: 'by bank transfer', means: TRANSFER, charge: 'bank_transfers.create', giveBack: 'bank_transfers.create' },
];

const effects = async (): Promise<number> => (await app.sandbox.effects()).length;
const effect = (n = 1) => waitFor(async () => (await effects()) === n, { description: `${n} effects at the provider` });
const payment = async (id: string) => (await app.as().get(`/v1/payments/${id}`)).body;
const statusOf = async (orderId: string): Promise<string> => (await app.as().get(`/v1/orders/${orderId}`)).body.status;
const statuses = (answers: readonly ApiResponse[]): number[] => answers.map(({ status }) => status).sort();
const reconcile = () => app.service.app.get(Reconciliation).run();
const holdOrder = (id: string) => holdRows(app.database, 'orders WHERE id = $1', [id]);
const holdKey = (key: string) => holdRows(app.database, 'idempotency_keys WHERE key = $1', [key]);

/** The paid order's payment was settled once, whoever heard of it. */
async function expectPaidOnce(orderId: string, answer: ApiResponse, key: string): Promise<void> {
  expect([answer.status, answer.body.status]).toEqual([201, 'succeeded']);
  expect(await app.counts()).toEqual(PAID);
  expect(await app.eventsOf(answer.body.id as string)).toEqual(['payment.succeeded 2']);
  expect(await statusOf(orderId)).toBe('paid');
  expectReplayOf(answer, await app.pay(orderId, CARD, key));
  expect((await payment(answer.body.id as string)).version).toBe(2);
}

describe('a reply and a webhook that tell of the same payment (K15)', () => {
  it.each([
    ['the reply first', 'reply'],
    ['the webhook first', 'webhook'],
  ])('settle it once when they meet at its row, %s', async (_which, first) => {
    const [orderId, key] = [await app.order(), randomUUID()];
    await app.sandbox.arm('payment_intents.create', 'delay', { delayMs: LATE });
    const reply = app.pay(orderId, CARD, key);
    await effect();
    const rows = await holdOrder(orderId);
    if (first === 'reply') await rows.queued(1);
    const webhook = app.tell((await app.notices())[0]!);
    await rows.queued(2);
    await rows.release();

    expect((await webhook).status).toBe(204);
    await expectPaidOnce(orderId, await reply, key);
  });

  it('settle it by the webhook alone when that comes before the reply', async () => {
    const [orderId, key] = [await app.order(), randomUUID()];
    await app.sandbox.arm('payment_intents.create', 'delay', { delayMs: LATE });
    const reply = app.pay(orderId, CARD, key);
    await effect();
    expect((await app.tell((await app.notices())[0]!)).status).toBe(204);

    expect(await statusOf(orderId)).toBe('paid');
    expect(await app.counts()).toEqual(PAID);
    await expectPaidOnce(orderId, await reply, key);
    expect((await app.pay(orderId)).body.code).toBe('order-already-paid');
  });

  it('settle it once when ten webhooks come at once with the reply', async () => {
    const [orderId, key] = [await app.order(), randomUUID()];
    await app.sandbox.arm('payment_intents.create', 'delay', { delayMs: LATE });
    const reply = app.pay(orderId, CARD, key);
    await effect();
    const rows = await holdOrder(orderId);
    const [notice] = await app.notices();
    const webhooks = Array.from({ length: 10 }, () => app.tell(notice!));
    await rows.queued(5);
    await rows.release();

    expect(statuses(await Promise.all(webhooks))).toEqual(Array(10).fill(204));
    await expectPaidOnce(orderId, await reply, key);
    expect(await app.database.count('processed_messages')).toBe(1);
  });

  it('settle a refund once, its own webhook and the charge’s before and after the reply', async () => {
    const { id, orderId } = await app.paid();
    await app.sandbox.arm('refunds.create', 'delay', { delayMs: LATE });
    const key = randomUUID();
    const reply = app.refund(id, { amount: 400 }, key);
    await effect(2);
    const notices = await app.notices();
    const told = await Promise.all([...notices, ...notices].map((notice) => app.tell(notice)));

    expect(statuses(told)).toEqual(Array(told.length).fill(204));
    expect((await reply).status).toBe(201);
    for (const notice of notices.reverse()) expect((await app.tell(notice)).status).toBe(204);
    expectReplayOf(await reply, await app.refund(id, { amount: 400 }, key));
    expect(await app.counts()).toEqual({ payments: 1, refunds: 1, movements: 2, events: 2, effects: 2, keys: 2 });
    expect(await payment(id)).toMatchObject({ refundedAmount: 400, version: 3 });
    expect(await statusOf(orderId)).toBe('partially_refunded');
  });
});

describe.each(MEANS)('refunds of a payment $how that come at once (K16)', ({ means, giveBack }) => {
  it('give back 60 of 100 once when 60 are asked back twice', async () => {
    const { id, orderId } = await app.paid(means, HUNDRED);
    const rows = await holdRows(app.database, 'payments WHERE id = $1', [id]);
    const both = [app.refund(id, { amount: 60 }), app.refund(id, { amount: 60 })];
    await rows.queued(2);
    await rows.release();

    const answers = await Promise.all(both);
    expect(statuses(answers)).toEqual([201, 422]);
    const refused = answers.find(({ status }) => status === 422)!;
    expect(refused.body).toMatchObject({ code: 'refund-exceeds-payment', paymentId: id, refundable: 40 });
    expect(await app.counts()).toEqual({ payments: 1, refunds: 1, movements: 2, events: 2, effects: 2, keys: 3 });
    expect(await payment(id)).toMatchObject({ refundedAmount: 60, version: 3 });
    expect(await statusOf(orderId)).toBe('partially_refunded');
  });

  it('give back ten times 10 of 100 and refuse the eleventh', async () => {
    const { id, orderId } = await app.paid(means, HUNDRED);
    const answers = await Promise.all(Array.from({ length: 11 }, () => app.refund(id, { amount: 10 })));

    expect(statuses(answers)).toEqual([...Array<number>(10).fill(201), 422]);
    expect(await app.counts()).toEqual({ payments: 1, refunds: 10, movements: 11, events: 11, effects: 11, keys: 12 });
    expect(await payment(id)).toMatchObject({ refundedAmount: 100, version: 12 });
    expect(await statusOf(orderId)).toBe('refunded');
  });

  it.each([
    ['is unknown', 'drop-response'],
    ['has not happened yet', 'reset-connection'],
  ])('count one whose outcome %s', async (_what, fault) => {
    const { id } = await app.paid(means, HUNDRED);
    const key = randomUUID();
    await app.sandbox.arm(giveBack, fault);
    expect((await app.refund(id, { amount: 60 }, key)).status).toBe(503);

    const second = await app.refund(id, { amount: 60 });
    expect([second.status, second.body.code]).toEqual([422, 'refund-exceeds-payment']);
    expect((await app.refund(id, { amount: 40 })).status).toBe(201);
    const settled = await app.refund(id, { amount: 60 }, key);
    // A bank cannot be called again without knowing: there an unanswered call stays open until it is given up.
    if (means === TRANSFER && fault === 'reset-connection') expect(settled.status).toBe(503);
    else expect(settled.status).toBe(201);
    const back = settled.status === 201 ? 100 : 40;
    expect(await payment(id)).toMatchObject({ refundedAmount: back });
    expect(await effects()).toBe(back === 100 ? 3 : 2);
    expect((await app.refund(id, { amount: 1 })).status).toBe(422);
  });
});

describe.each(MEANS)('two equal partial refunds of a payment $how, both meant (K17)', ({ means, giveBack }) => {
  const BOTH = { payments: 1, refunds: 2, movements: 3, events: 3, effects: 3, keys: 3 };

  it('both happen, at once and one after the other', async () => {
    const { id } = await app.paid(means, HUNDRED);
    const keys = [randomUUID(), randomUUID()];
    const answers = await Promise.all(keys.map((key) => app.refund(id, { amount: 40 }, key)));

    expect(statuses(answers)).toEqual([201, 201]);
    expect(answers[0]!.body.id).not.toBe(answers[1]!.body.id);
    for (const [n, key] of keys.entries()) expectReplayOf(answers[n]!, await app.refund(id, { amount: 40 }, key));
    expect(await app.counts()).toEqual(BOTH);
    expect(await payment(id)).toMatchObject({ refundedAmount: 80 });
    expect((await app.refund(id, { amount: 20 })).status).toBe(201);
    expect(await payment(id)).toMatchObject({ refundedAmount: 100 });
  });

  it('both happen when the reply to the first is lost: neither is taken for the other', async () => {
    const { id } = await app.paid(means, HUNDRED);
    const key = randomUUID();
    await app.sandbox.arm(giveBack, 'drop-response');
    expect((await app.refund(id, { amount: 40 }, key)).status).toBe(503);
    const second = await app.refund(id, { amount: 40 });
    const first = await app.refund(id, { amount: 40 }, key);

    expect([second.status, first.status]).toEqual([201, 201]);
    expect(first.body.id).not.toBe(second.body.id);
    expect(await app.counts()).toEqual(BOTH);
    expect(await payment(id)).toMatchObject({ refundedAmount: 80 });
  });

  it('one happens when they carry the same reference', async () => {
    const { id } = await app.paid(means, HUNDRED);
    const body = { amount: 40, reference: 'return-7' };
    const answers = await Promise.all([app.refund(id, body), app.refund(id, body)]);

    expect(statuses(answers)).toEqual([201, 409]);
    const [made, refused] = answers[0].status === 201 ? answers : [...answers].reverse();
    expect(refused!.body).toMatchObject({ code: 'duplicate-external-ref', refundId: made!.body.id });
    expect(await app.counts()).toEqual({ ...BOTH, refunds: 1, movements: 2, events: 2, effects: 2 });
  });
});

describe.each(MEANS)('the reconciler and a retry at the same moment, $how (K18)', ({ means, charge, giveBack }) => {
  it.each(['reconciler', 'retry'])('settle a payment once when the %s comes first', async (first) => {
    const [orderId, key] = [await app.order(), randomUUID()];
    await app.sandbox.arm(charge, 'drop-response');
    expect((await app.pay(orderId, means, key)).status).toBe(503);

    const { run, retry } = await meet(key, first, () => app.pay(orderId, means, key));
    expect(retry.status).toBe(201);
    expect(run.open).toBe(0);
    expect(await app.counts()).toEqual(PAID);
    expect(await app.eventsOf(retry.body.id as string)).toEqual(['payment.succeeded 2']);
    expect((await app.pay(orderId, means, key)).text).toBe(retry.text);
    expect((await app.sandbox.calls()).length).toBe(1);
  });

  it.each(['reconciler', 'retry'])('settle a refund once when the %s comes first', async (first) => {
    const { id } = await app.paid(means, HUNDRED);
    const key = randomUUID();
    await app.sandbox.arm(giveBack, 'drop-response');
    expect((await app.refund(id, { amount: 60 }, key)).status).toBe(503);

    const { run, retry } = await meet(key, first, () => app.refund(id, { amount: 60 }, key));
    expect(retry.status).toBe(201);
    expect(run.open).toBe(0);
    expect(await app.counts()).toEqual({ payments: 1, refunds: 1, movements: 2, events: 2, effects: 2, keys: 2 });
    expect(await app.eventsOf(retry.body.id as string)).toEqual(['refund.succeeded 2']);
    expect(await payment(id)).toMatchObject({ refundedAmount: 60, version: 3 });
    expect((await app.refund(id, { amount: 60 }, key)).text).toBe(retry.text);
    expect((await app.sandbox.calls()).length).toBe(2);
  });
});

/** Lets both reach the key's row, the first of them first, and go on from there. */
async function meet(key: string, first: string, retry: () => Promise<ApiResponse>) {
  const rows = await holdKey(key);
  const inTurn = first === 'reconciler' ? [reconcile, retry] : [retry, reconcile];
  const begun: Promise<unknown>[] = [];
  for (const act of inTurn) {
    begun.push(act());
    await rows.queued(begun.length);
  }
  await rows.release();
  const [one, other] = (await Promise.all(begun)) as [unknown, unknown];
  const [run, answer] = first === 'reconciler' ? [one, other] : [other, one];
  return { run: run as Awaited<ReturnType<typeof reconcile>>, retry: answer as ApiResponse };
}
