import type { Accident } from '../accident.js';
import { TEA } from './what-is-sent.js';

export const killedAfterCommit: Accident = {
  name: 'killed-after-commit',
  title: 'The process is killed after COMMIT',
  story:
    'The order is committed, and before a byte of the answer reaches the client the process gets SIGKILL. It is started ' +
    'again; the client goes on trying until somebody answers.',
  leaves: { orders: 1, events: 1 },
  async play({ target, client, note }) {
    const { orders = 0 } = await target.counts();
    const killed = target.door.atReplyTo('POST /v1/orders', () => target.kill());
    const placed = client.createOrder(TEA);
    await Promise.race([killed, placed]);
    const committed = (await target.counts()).orders! - orders;
    note(`Orders of this client in the database when the process was dead: ${committed}`);
    await Promise.all([target.start(), placed]);
  },
};
