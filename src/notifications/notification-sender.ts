import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { AcrossTenants } from '../database/across-tenants.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { Pause } from '../messaging/pause.js';
import { MailDelayedError, Mailer, MailRefusedError } from './mailer.js';
import {
  type Ending,
  endNotification,
  MOST_ATTEMPTS,
  type TakenNotification,
  takeNotification,
  TENANTS_WITH_NOTIFICATIONS,
} from './notification-table.js';
import { NOTIFICATIONS_OPTIONS, type NotificationsOptions } from './notifications.options.js';
import { renderReceipt } from './receipt.js';

/** Milliseconds between two attempts to write down what became of a notification. */
const BETWEEN_MARKS = 200;

/** A notification, and until when something may be done about it, on the clock of this process. */
interface Held {
  readonly taken: TakenNotification;
  /** Later it must not be begun: it would not be over when the lease is. */
  readonly beginBy: number;
  readonly leaseEnds: number;
}

/**
 * Sends what is due, on any number of replicas. Each notification is taken under a lease with a token on the database's
 * clock, sent with no transaction open, and marked as far as it is still the sender's own. A sender that dies in between
 * leaves it to the next one, who sends the same mail under the same Message-ID.
 *
 * Each is on its own: what is slow or refused holds up no other, and tenants take turns.
 */
@Injectable()
export class NotificationSender implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(NotificationSender.name);
  private readonly pause: Pause;
  private readonly underWay = new Set<Promise<void>>();
  private readonly cutOff = new AbortController();
  private running: Promise<void> | undefined;
  private stopping = false;
  private serverIsAway = false;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    private readonly mailer: Mailer,
    @Inject(NOTIFICATIONS_OPTIONS) private readonly options: NotificationsOptions,
  ) {
    this.pause = new Pause(options.longestPause);
  }

  /** Something is due now: the pause, if there is one, ends. */
  readonly nudge = (): void => this.pause.end();

  onApplicationBootstrap(): void {
    this.running = this.work();
  }

  /** What is being sent gets a moment to end: cut off, it would come twice. */
  async beforeApplicationShutdown(): Promise<void> {
    this.stopping = true;
    this.pause.end();
    const timer = setTimeout(() => this.cutOff.abort(), this.options.patience);
    await this.running;
    await Promise.all(this.underWay);
    clearTimeout(timer);
  }

  /** Sends what is due now, and waits for it. @returns how many were begun */
  async run(): Promise<number> {
    const begun = await this.beginAll();
    await Promise.all(this.underWay);
    return begun;
  }

  private async work(): Promise<void> {
    while (!this.stopping) {
      const begun = await this.beginAll().catch((error: unknown) => {
        this.logger.warn(`notifications_wait: ${String(error)}`);
        return undefined;
      });
      if (begun === undefined || this.serverIsAway) await this.pause.longest();
      else if (begun > 0) this.pause.shorten();
      else await this.pause.next();
    }
  }

  /** Begins one of each tenant in turn until nothing is due, or the server turns out to be away. */
  private async beginAll(): Promise<number> {
    this.serverIsAway = false;
    const rows = await this.acrossTenants.query<{ tenant_id: string }>(TENANTS_WITH_NOTIFICATIONS);
    const tenants = rows.map(({ tenant_id: tenantId }) => tenantId);
    let begun = 0;
    for (let tenantId = tenants.shift(); tenantId !== undefined; tenantId = tenants.shift()) {
      if (this.underWay.size >= this.options.lanes) await Promise.race(this.underWay);
      if (this.stopping || this.serverIsAway) break;
      const held = await this.take(tenantId);
      if (!held) continue;
      this.begin(held);
      begun += 1;
      tenants.push(tenantId);
    }
    return begun;
  }

  private async take(tenantId: string): Promise<Held | undefined> {
    const { lease, sendTimeout } = this.options;
    const now = performance.now(); // before the lease begins, so that we never think it longer than it is
    const taken = await this.unitOfWork.run(tenantId, (transaction) =>
      takeNotification(transaction, randomUUID(), lease),
    );
    return taken && { taken, beginBy: now + lease - sendTimeout, leaseEnds: now + lease };
  }

  private begin(held: Held): void {
    const sending = this.bringToEnd(held).finally(() => this.underWay.delete(sending));
    this.underWay.add(sending);
  }

  private async bringToEnd(held: Held): Promise<void> {
    const ending: Ending =
      this.stopping || performance.now() > held.beginBy ? { kind: 'untried' } : await this.send(held.taken);
    await this.mark(held, ending);
  }

  private async send(taken: TakenNotification): Promise<Ending> {
    const { id, messageId, recipient: to, content, createdAt: date, attempts } = taken;
    if (attempts > MOST_ATTEMPTS) return this.failed(taken, 'Its senders have ended in the middle of it');
    const signal = AbortSignal.any([AbortSignal.timeout(this.options.sendTimeout), this.cutOff.signal]);
    try {
      await this.mailer.send({ id, messageId, to, date, ...renderReceipt(content) }, signal);
      return { kind: 'sent' };
    } catch (error) {
      return this.endingOf(taken, error);
    }
  }

  /** Addresses stay out of the log: servers like to repeat them. */
  private endingOf(taken: TakenNotification, error: unknown): Ending {
    if (error instanceof MailRefusedError) return this.failed(taken, error.message, error.summary);
    const isKnown = error instanceof MailDelayedError;
    const { message } = error as Error;
    const summary = isKnown ? error.summary : (error as Error).name;
    this.serverIsAway ||= isKnown && error.isAway;
    if (taken.attempts >= MOST_ATTEMPTS) return this.failed(taken, message, summary);
    this.logger.warn(`notification_delayed: ${taken.id}: ${summary}`);
    return { kind: 'later', reason: message };
  }

  private failed({ id }: TakenNotification, reason: string, summary = reason): Ending {
    this.logger.error(`notification_failed: ${id}: ${summary}`);
    return { kind: 'failed', reason };
  }

  /** Goes on trying while the lease lasts: a mail that was sent and not marked would be sent again. */
  private async mark({ taken, leaseEnds }: Held, ending: Ending): Promise<void> {
    for (;;) {
      try {
        const isOurs = await endNotification(this.unitOfWork, taken, ending);
        if (!isOurs) this.logger.debug(`notification_taken_over: ${taken.id}`);
        return;
      } catch (error) {
        if (performance.now() + BETWEEN_MARKS > leaseEnds || this.cutOff.signal.aborted) {
          this.logger.warn(`notification_not_marked: ${taken.id}: ${ending.kind}: ${String(error)}`);
          return;
        }
      }
      await sleep(BETWEEN_MARKS);
    }
  }
}
