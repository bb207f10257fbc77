import { type NewOrder, type Order, type OrdersClient, RefusedError } from '../../src/client/index.js';
import type { Accident } from '../accident.js';
import { TEA } from './what-is-sent.js';

type Items = NewOrder['items'];

/** An edit as a person means it, and how to see that it is there. */
interface Edit {
  readonly apply: (items: Items) => Items;
  readonly isIn: (items: Items) => boolean;
}

const ADDS_COFFEE: Edit = {
  apply: (items) => [...items, { sku: 'coffee', quantity: 1, unitAmount: 700 }],
  isIn: (items) => items.some(({ sku }) => sku === 'coffee'),
};
const WANTS_THREE_TEAS: Edit = {
  apply: (items) => items.map((item) => (item.sku === 'tea' ? { ...item, quantity: 3 } : item)),
  isIn: (items) => items.some(({ sku, quantity }) => sku === 'tea' && quantity === 3),
};

/** Sends the edit of the order as it was read; when that has changed meanwhile, reads it anew and edits that. */
async function save(client: OrdersClient, read: Order, edit: Edit): Promise<void> {
  try {
    await client.updateOrder(read.id, { items: edit.apply(read.items) }, { version: read.version });
  } catch (error) {
    if (!(error instanceof RefusedError && error.code === 'precondition-failed')) throw error;
    await save(client, await client.getOrder(read.id), edit);
  }
}

export const staleEdit: Accident = {
  name: 'stale-edit',
  title: 'An edit of something stale',
  story:
    'Two people open the same order. One adds coffee and saves; the other, who still sees the order without it, makes it ' +
    'three teas and saves. Both are told that their edit is in.',
  leaves: { orders: 1, 'edits saved': 2, 'edits lost': 0 },
  async play({ client, before }) {
    const { id } = await before.createOrder(TEA);
    const read = await before.getOrder(id);
    const edits = [ADDS_COFFEE, WANTS_THREE_TEAS];
    const saved: Edit[] = [];
    for (const edit of edits) {
      await save(client, read, edit);
      saved.push(edit); // its author was told that it is in
    }
    const { items } = await before.getOrder(id);
    return { 'edits saved': saved.length, 'edits lost': saved.filter(({ isIn }) => !isIn(items)).length };
  },
};
