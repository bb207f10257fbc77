// Plain JavaScript on the built service: `main.ts` as it is, with a consumer of the test's own and other times.
import { Injectable } from '@nestjs/common';
import { AppModule } from '../../dist/src/app.module.js';
import { AcrossTenants } from '../../dist/src/database/across-tenants.js';
import { Consumers } from '../../dist/src/messaging/consumers.js';
import { Consumes } from '../../dist/src/messaging/consumes.decorator.js';
import { MESSAGING_DEFAULTS, MESSAGING_OPTIONS } from '../../dist/src/messaging/messaging.options.js';
import { MessagingModule } from '../../dist/src/messaging/messaging.module.js';
import { EventTransport } from '../../dist/src/messaging/transports/event-transport.js';
import { LocalTransport } from '../../dist/src/messaging/transports/local-transport.js';

/** Notes each delivery before it is made, repeats included, where the consumer sees none: the inbox knows them. */
class NotingTransport extends LocalTransport {
  constructor(consumers, acrossTenants) {
    super(consumers);
    this.acrossTenants = acrossTenants;
  }

  async publish(event) {
    const { id, subject, aggregateversion } = event.envelope;
    await this.acrossTenants.query(
      'INSERT INTO deliveries (message_id, subject, version, process) VALUES ($1, $2, $3, $4)',
      [id, subject, aggregateversion, process.pid],
    );
    await super.publish(event);
  }
}

/** Writes an effect. A subject in `behaviours` says what else it does. */
class EffectConsumer {
  async onEvent(event, transaction) {
    const [told] = await transaction.query('SELECT does FROM behaviours WHERE subject = $1', [event.subject]);
    if (told?.does === 'exit') process.exit(9);
    if (told?.does === 'throw') throw new Error('poison');
    if (told?.does === 'linger') await transaction.query('SELECT pg_sleep(0.1)');
    await transaction.query('INSERT INTO effects (tenant_id, event_id, subject, version) VALUES ($1, $2, $3, $4)', [
      transaction.tenantId,
      event.id,
      event.subject,
      event.aggregateversion,
    ]);
  }

  onCreated(event, transaction) {
    return this.onEvent(event, transaction);
  }

  onUpdated(event, transaction) {
    return this.onEvent(event, transaction);
  }
}
Injectable()(EffectConsumer);
const consume = (type, method) =>
  Consumes(type, { consumer: `test.${method}` })(
    EffectConsumer.prototype,
    method,
    Object.getOwnPropertyDescriptor(EffectConsumer.prototype, method),
  );
consume('order.created', 'onCreated');
consume('order.updated', 'onUpdated');

const forRoot = AppModule.forRoot.bind(AppModule);
AppModule.forRoot = (settings, ...rest) => {
  const root = forRoot(settings, ...rest);
  const { providers } = root.imports.find(({ module }) => module === MessagingModule);
  const replace = (token, provider) => {
    providers[providers.findIndex(({ provide }) => provide === token)] = { provide: token, ...provider };
  };
  const times = JSON.parse(process.env.MESSAGING ?? '{}');
  replace(MESSAGING_OPTIONS, { useValue: { ...MESSAGING_DEFAULTS, ...settings.messaging, ...times } });
  if (process.env.NOTE_DELIVERIES === 'true') {
    replace(EventTransport, {
      useFactory: (consumers, acrossTenants) => new NotingTransport(consumers, acrossTenants),
      inject: [Consumers, AcrossTenants],
    });
  }
  return { ...root, providers: [...root.providers, EffectConsumer] };
};
await import('../../dist/src/main.js');
