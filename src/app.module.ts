import { type DynamicModule, Module, type Provider } from '@nestjs/common';
import { APP_FILTER, APP_INTERCEPTOR, APP_PIPE } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import type { Settings } from './config/settings.js';
import { DatabaseModule } from './database/database.module.js';
import { FeedsModule } from './feeds/feeds.module.js';
import { HttpModule } from './http/http.module.js';
import { ProblemFilter } from './http/problem.filter.js';
import { ValidationPipe } from './http/validation.pipe.js';
import { IdempotencyInterceptor } from './idempotency/idempotency.interceptor.js';
import { IdempotencyModule } from './idempotency/idempotency.module.js';
import { Consumers } from './messaging/consumers.js';
import { MESSAGING_DEFAULTS, MESSAGING_OPTIONS, type MessagingOptions } from './messaging/messaging.options.js';
import { MessagingModule } from './messaging/messaging.module.js';
import { EventTransport } from './messaging/transports/event-transport.js';
import { LocalTransport } from './messaging/transports/local-transport.js';
import { RabbitMqTransport } from './messaging/transports/rabbitmq/rabbitmq-transport.js';
import type { MailAccess } from './notifications/mail-access.js';
import { NotificationsModule } from './notifications/notifications.module.js';
import { NOTIFICATIONS_DEFAULTS } from './notifications/notifications.options.js';
import { OperationsModule } from './operations/operations.module.js';
import { OrdersModule } from './orders/orders.module.js';
import { PaymentsModule } from './payments/payments.module.js';
import type { ProviderAccess } from './payments/provider-access.js';
import { callerOf } from './tenants/login.js';
import { TenantsModule } from './tenants/tenants.module.js';

/** Of the grace at shutdown, after requests have had theirs. */
const PATIENCE_SHARE = 0.2;

/** Where the parts are put together. */
@Module({})
export class AppModule {
  /** @param mail undefined: no mails, and so no consumer of events in this process */
  static forRoot(settings: Settings, databaseUrl: string, providers: ProviderAccess, mail?: MailAccess): DynamicModule {
    const { poolSize } = settings.database;
    const { reconciliationInterval, giveUp } = settings.payments;
    const { inboxRetention } = settings.messaging;
    const { wait, lease } = settings.idempotency;
    const { broker, ...retention } = settings.messaging;
    return {
      module: AppModule,
      imports: [
        ScheduleModule.forRoot(),
        DatabaseModule.forRoot({ url: databaseUrl, poolSize, longestWait: wait }),
        HttpModule.forRoot(settings.http.publicUrl),
        TenantsModule,
        IdempotencyModule.forRoot({
          tenantOf: (request) => callerOf(request).tenantId,
          ...settings.idempotency,
          poolSize,
        }),
        MessagingModule.forRoot({ ...MESSAGING_DEFAULTS, ...retention }, transportOf(broker)),
        OrdersModule,
        FeedsModule,
        PaymentsModule.forRoot({ reconciliationInterval, giveUp, lease }, providers),
        NotificationsModule.forRoot(
          {
            ...NOTIFICATIONS_DEFAULTS,
            retention: inboxRetention,
            patience: settings.http.shutdownGrace * PATIENCE_SHARE,
          },
          mail,
        ),
        OperationsModule,
      ],
      providers: [
        // First, and so the outermost: it records what every other interceptor and pipe made of a result.
        { provide: APP_INTERCEPTOR, useExisting: IdempotencyInterceptor },
        { provide: APP_PIPE, useClass: ValidationPipe },
        { provide: APP_FILTER, useClass: ProblemFilter },
      ],
    };
  }
}

/** Where events go: to the consumers of this process, or to the broker. */
function transportOf(broker: Settings['messaging']['broker']): Provider {
  if (!broker) return { provide: EventTransport, useClass: LocalTransport };
  return {
    provide: EventTransport,
    inject: [Consumers, MESSAGING_OPTIONS],
    useFactory: (consumers: Consumers, options: MessagingOptions) => new RabbitMqTransport(consumers, options, broker),
  };
}
