import { type DynamicModule, Logger, Module, type OnApplicationBootstrap, type Provider } from '@nestjs/common';
import { FileMailer } from './file-mailer.js';
import type { MailAccess } from './mail-access.js';
import { Mailer } from './mailer.js';
import { NotificationRetention } from './notification-retention.js';
import { NotificationSender } from './notification-sender.js';
import { NOTIFICATIONS_OPTIONS, type NotificationsOptions } from './notifications.options.js';
import { ReceiptConsumer } from './receipt.consumer.js';
import { SmtpMailer } from './smtp-mailer.js';

class MailIsOff implements OnApplicationBootstrap {
  onApplicationBootstrap(): void {
    new Logger('Notifications').log('Mail is off: no receipts are sent. Set SMTP_URL to send them.');
  }
}

/** Tells people outside what has happened: the receipt of a payment, by mail. */
@Module({})
export class NotificationsModule {
  /** @param access undefined: no mails. There is no consumer then, and events wait for nobody. */
  static forRoot(options: NotificationsOptions, access: MailAccess | undefined): DynamicModule {
    const sending: Provider[] = access
      ? [{ provide: Mailer, useValue: mailerTo(access) }, NotificationSender, ReceiptConsumer]
      : [MailIsOff];
    return {
      module: NotificationsModule,
      providers: [{ provide: NOTIFICATIONS_OPTIONS, useValue: options }, NotificationRetention, ...sending],
    };
  }
}

function mailerTo(access: MailAccess): Mailer {
  return access.kind === 'smtp' ? new SmtpMailer(access.url) : new FileMailer(access.directory);
}
