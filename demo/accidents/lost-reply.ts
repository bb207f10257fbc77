import type { Accident } from '../accident.js';
import { TEA } from './what-is-sent.js';

export const lostReply: Accident = {
  name: 'lost-reply',
  title: 'The reply is lost',
  story:
    'An order is placed and committed, and the answer is lost on its way back. The client cannot know whether the order ' +
    'exists, so it sends it again.',
  leaves: { orders: 1, events: 1 },
  async play({ target, client }) {
    await Promise.all([target.door.loseReplyTo('POST /v1/orders'), client.createOrder(TEA)]);
  },
};
