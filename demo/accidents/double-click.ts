import { randomUUID } from 'node:crypto';
import type { Accident } from '../accident.js';
import { CARD, TEA } from './what-is-sent.js';

/** Milliseconds: what an issuing bank may well take. */
const BANK_THINKS = 500;

export const doubleClick: Accident = {
  name: 'double-click',
  title: 'A double click',
  story:
    'Somebody clicks "Pay" twice, and both requests are under way at once. Whoever looks first whether the order is paid ' +
    'already finds in both of them that it is not: the bank has not answered yet.',
  leaves: { payments: 1, charges: 1, events: 2 },
  async play({ target, before, witness }) {
    const { id } = await before.createOrder(TEA);
    const key = randomUUID(); // made with the page that has the button
    const click = () => target.send(witness, `/v1/orders/${id}/payments`, CARD, key);
    await target.provider.whileSlow(BANK_THINKS, 2, () => Promise.all([click(), click()]));
  },
};
