import { Injectable } from '@nestjs/common';
import { SchedulerRegistry } from '@nestjs/schedule';
import type { Transaction } from '../../../src/database/transaction.js';
import type { CloudEvent } from '../../../src/messaging/cloud-event.js';
import { Consumes } from '../../../src/messaging/consumes.decorator.js';
import { StoredFiguresReader } from '../../../src/operations/stored-figures.js';
import { PayingApp } from '../../payments/paying.js';
import { ScriptedServer } from '../../support/scripted-server.js';
import { waitFor } from '../../support/wait-for.js';

/** What the consumer of the tests does with its next events; nothing once they are used up. */
const failures: (() => Error)[] = [];

@Injectable()
class MeteredConsumer {
  @Consumes('order.created', { consumer: 'test.metered' })
  async onCreated(_event: CloudEvent, _transaction: Transaction): Promise<void> {
    const failure = failures.shift();
    if (failure) throw failure();
  }
}

/** The service with a sandbox and a consumer, in which nothing happens by itself. */
export class MeteredApp {
  private constructor(
    readonly paying: PayingApp,
    /** A provider whose answers a test writes. */
    readonly provider: ScriptedServer,
  ) {}

  static async start(): Promise<MeteredApp> {
    const paying = await PayingApp.start(
      { IDEMPOTENCY_WAIT: '200ms' },
      {
        providers: [MeteredConsumer],
        messaging: { longestPause: 50, firstDelay: 3_600_000, attempts: 2 },
      },
    );
    const { app } = paying.service;
    const scheduler = app.get(SchedulerRegistry, { strict: false });
    for (const name of scheduler.getIntervals()) scheduler.deleteInterval(name);
    app.get(StoredFiguresReader).believedFor = 0;
    return new MeteredApp(paying, await ScriptedServer.start());
  }

  get<T>(token: abstract new (...args: never[]) => T): T {
    return this.paying.service.app.get<T>(token, { strict: false });
  }

  /** Lets the consumer fail on its next event. */
  failOnce(failure: () => Error = () => new Error('refused by the test')): void {
    failures.push(failure);
  }

  sql(text: string): Promise<unknown> {
    return this.paying.database.query(text);
  }

  /** Waits until the relay has dealt with everything that it may deal with now. */
  async settled(): Promise<void> {
    await waitFor(
      async () =>
        (await this.paying.database.count(
          'outbox',
          `published_at IS NULL AND dead_at IS NULL
           AND (lease_until IS NOT NULL OR coalesce(available_at, '-infinity') <= statement_timestamp())`,
        )) === 0,
      { description: 'the relay to have nothing to do' },
    );
  }

  async clear(): Promise<void> {
    failures.length = 0;
    await this.settled();
    await this.paying.sandbox.disarm();
    await this.paying.clear();
  }

  async stop(): Promise<void> {
    await this.paying.stop();
    await this.provider.stop();
  }
}
