import type { Accident } from '../accident.js';
import { CARD, TEA } from './what-is-sent.js';

export const redeliveredMessage: Accident = {
  name: 'redelivered-message',
  title: 'A message is delivered again',
  story:
    'An order is paid, and the provider tells so by webhook. Webhooks come at least once: here the message comes three ' +
    'times, as it does when an acknowledgement was lost.',
  leaves: { payments: 1, charges: 1, bookings: 1, mails: 1 },
  async play({ target, client, before, note }) {
    const { id } = await before.createOrder(TEA);
    await client.payOrder(id, { ...CARD, receiptEmail: 'ada@shop.example' });
    await target.settled();
    const again = [await target.provider.redeliver('original'), await target.provider.redeliver('reverse')];
    const sent = again.reduce((sum, delivery) => sum + delivery.sent, 0);
    const failed = again.reduce((sum, delivery) => sum + delivery.failed, 0);
    note(`Repeats that the provider sent: ${sent}, acknowledged: ${sent - failed}`);
  },
};
