import { Module } from '@nestjs/common';
import { EventLog } from './event-log.js';
import { EventsController } from './events.controller.js';
import { Inbox } from './inbox.js';
import { Outbox } from './outbox.js';

@Module({ controllers: [EventsController], providers: [Outbox, EventLog, Inbox], exports: [Outbox, Inbox] })
export class MessagingModule {}
