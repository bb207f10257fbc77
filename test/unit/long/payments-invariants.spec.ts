import { describe, expect, it } from '@jest/globals';
import { breachesOf } from '../../long/payments-invariants.js';
import type { Snapshot } from '../../long/payments-snapshot.js';

const AMOUNT = 900;
const payment = { orderId: 'order', amount: AMOUNT, refundedAmount: 0, reservedAmount: 0 };
const charge = { kind: 'charge', amount: AMOUNT } as const;

/** An order paid by one payment; the charge of another one was given back, and came back, since the card is closed. */
const CAME_BACK: Snapshot = {
  orders: [{ id: 'order', status: 'paid', version: 2, livePaymentId: 'paid', deleted: false }],
  payments: [
    { ...payment, id: 'late', status: 'failed', version: 2 },
    { ...payment, id: 'paid', status: 'succeeded', version: 2 },
  ],
  refunds: [],
  movements: [
    { ...charge, ref: 'pi_paid', paymentId: 'paid', surplus: false },
    { ...charge, ref: 'pi_late', paymentId: 'late', surplus: true },
    { ref: 're_late', kind: 'refund', paymentId: 'late', amount: -AMOUNT, surplus: true },
    { ref: 're_late', kind: 'refund_reversal', paymentId: 'late', amount: AMOUNT, surplus: true },
  ],
  events: (
    [
      ['order', 'order.created', 1],
      ['late', 'payment.failed', 2],
      ['paid', 'payment.succeeded', 2],
    ] as const
  ).map(([subject, type, version]) => ({
    ...{ id: type, subject, aggregate: type.split('.')[0]!, type, version },
    data: { status: type.split('.')[1]!, version },
  })),
  provider: [
    { ...charge, ref: 'pi_paid', paymentId: 'paid', chargeRef: 'pi_paid', state: 'succeeded' },
    { ...charge, ref: 'pi_late', paymentId: 'late', chargeRef: 'pi_late', state: 'succeeded' },
    { ref: 're_late', kind: 'refund', paymentId: 'late', chargeRef: 'pi_late', amount: AMOUNT, state: 'failed' },
  ],
  openKeys: [],
  openSurplus: [],
  questions: [{ id: 'review', paymentId: 'late', chargeRef: 'pi_late', amount: AMOUNT, status: 'returned' }],
  untold: 0,
};

describe('what must hold after a random run', () => {
  it('holds when a surplus charge could not be given back and a person has been asked', () => {
    expect(breachesOf(CAME_BACK)).toEqual([]);
  });

  it.each<[string, Snapshot['questions']]>([
    ['nobody has been asked', []],
    ['the question is about less', CAME_BACK.questions.map((question) => ({ ...question, amount: AMOUNT - 1 }))],
    ['nobody knows whether it was given back', CAME_BACK.questions.map((one) => ({ ...one, status: 'sent' }))],
  ])('does not when %s', (_, questions) => {
    expect(breachesOf({ ...CAME_BACK, questions })).not.toEqual([]);
  });
});
