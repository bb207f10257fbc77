import { randomUUID } from 'node:crypto';
import type { NewOrder, Order } from '../../src/client/index.js';
import type { Accident } from '../accident.js';
import { TEA } from './what-is-sent.js';

const MORE_TEA: NewOrder = { ...TEA, items: [{ sku: 'tea', quantity: 3, unitAmount: 450 }] };

export const changedBody: Accident = {
  name: 'changed-body',
  title: 'The body has changed',
  story:
    'A client with a bug builds its request anew for the retry, and meanwhile the basket has changed: the same key, another ' +
    'order. To answer with the first order would be a lie, and to make a second one is what the key was to prevent.',
  leaves: { orders: 1, events: 1, 'false answers': 0 },
  async play({ target, witness }) {
    const key = randomUUID();
    let falseAnswers = 0;
    for (const order of [TEA, MORE_TEA]) {
      const { status, body } = await target.send(witness, '/v1/orders', order, key);
      const isFalse = status === 201 && (body as Order).items[0]?.quantity !== order.items[0]?.quantity;
      if (isFalse) falseAnswers += 1;
    }
    return { 'false answers': falseAnswers };
  },
};
