import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { Consumers } from './consumers.js';
import { DeadEvents } from './dead-events.js';
import { EventLog } from './event-log.js';
import { EventsController } from './events.controller.js';
import { Inbox } from './inbox.js';
import { MESSAGING_OPTIONS, type MessagingOptions } from './messaging.options.js';
import { Outbox } from './outbox.js';
import { Relay } from './relay.js';
import { MessagingRetention } from './retention.js';

/** Events out, messages in. Global: every feature appends events, and any may consume. */
@Module({})
export class MessagingModule {
  /** @param transport provides the EventTransport */
  static forRoot(options: MessagingOptions, transport: Provider): DynamicModule {
    return {
      module: MessagingModule,
      global: true,
      imports: [DiscoveryModule],
      controllers: [EventsController],
      providers: [
        { provide: MESSAGING_OPTIONS, useValue: options },
        transport,
        Outbox,
        EventLog,
        Inbox,
        Consumers,
        Relay,
        DeadEvents,
        MessagingRetention,
      ],
      exports: [Outbox, Inbox, Relay, DeadEvents],
    };
  }
}
