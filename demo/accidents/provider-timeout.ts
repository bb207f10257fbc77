import type { Accident } from '../accident.js';
import { PROVIDER_TIMEOUT_MS } from '../side.js';
import { CARD, TEA } from './what-is-sent.js';

/** Longer than either side waits, the repeats of Stripe's SDK included. */
const TOO_LATE_MS = 4 * PROVIDER_TIMEOUT_MS;

export const providerTimeout: Accident = {
  name: 'provider-timeout',
  title: 'The provider times out',
  story:
    'The provider takes the money, but its answer comes too late, and so does its message. Nobody knows whether the card ' +
    'was charged, and the client tries again.',
  leaves: { payments: 1, charges: 1, bookings: 1 },
  async play({ target, client, before }) {
    const { provider } = target;
    const { id } = await before.createOrder(TEA);
    const pay = () => client.payOrder(id, CARD);
    await provider.whileSilent(() => provider.whileSlow(TOO_LATE_MS, 1, pay));
  },
};
