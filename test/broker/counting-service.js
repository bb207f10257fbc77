// The built service with a consumer, in a process of its own. Plain JavaScript: it runs beside `dist/`.
import { AppModule } from '../../dist/src/app.module.js';
import { Consumes } from '../../dist/src/messaging/consumes.decorator.js';
import { MESSAGING_DEFAULTS } from '../../dist/src/messaging/messaging.options.js';

const { DIES = '', MESSAGING = '{}' } = process.env;

const die = () => process.kill(process.pid, 'SIGKILL');

/** Counts each event in a table that allows it to be counted twice. */
class CountingConsumer {
  async onUpdated(event, transaction) {
    await transaction.query('INSERT INTO effects (tenant_id, event_id) VALUES ($1, $2)', [
      transaction.tenantId,
      event.id,
    ]);
    if (DIES === 'before COMMIT') die();
    if (DIES === 'after COMMIT') transaction.onCommitted(die);
  }
}
const { prototype } = CountingConsumer;
Consumes('order.updated', { consumer: 'count' })(
  prototype,
  'onUpdated',
  Object.getOwnPropertyDescriptor(prototype, 'onUpdated'),
);

Object.assign(MESSAGING_DEFAULTS, JSON.parse(MESSAGING));
const forRoot = AppModule.forRoot.bind(AppModule);
AppModule.forRoot = (...parts) => {
  const module = forRoot(...parts);
  return { ...module, providers: [...module.providers, CountingConsumer] };
};

await import('../../dist/src/main.js');
