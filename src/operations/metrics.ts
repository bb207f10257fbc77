import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { listen, SIGNAL_WORDS } from '../config/telemetry.js';
import { PoolFigures } from '../database/pool-figures.js';
import { type StoredFigures, StoredFiguresReader } from './stored-figures.js';

/** Seconds: a provider answers within them, or not at all. */
const CALL_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const STORED: Readonly<Record<Exclude<keyof StoredFigures, 'keysCompleted' | 'keysInProgress'>, [string, string]>> = {
  oldestUnfinishedKey: [
    'orders_idempotency_oldest_unfinished_seconds',
    'Age of the oldest operation that is unfinished',
  ],
  expiryLag: ['orders_idempotency_expiry_lag_seconds', 'For how long the oldest expired key has not been removed'],
  outboxPending: ['orders_outbox_pending', 'Events that are not published, counted up to 10,000'],
  outboxOldest: ['orders_outbox_oldest_seconds', 'Age of the oldest of the counted events that are not published'],
  outboxDead: ['orders_outbox_dead', 'Events that were put aside and wait for a decision'],
  paymentsUnknown: ['orders_payments_unknown', 'Payments whose outcome is not known'],
  refundsUnknown: ['orders_refunds_unknown', 'Refunds whose outcome is not known'],
  oldestUnknown: ['orders_payments_oldest_unknown_seconds', 'Age of the oldest payment or refund of unknown outcome'],
  reviewsOpen: ['orders_payment_reviews_open', 'Questions about payments that a person must decide'],
  surplusOpen: ['orders_surplus_charges_open', 'Surplus charges that are not given back yet'],
};

/**
 * Counts what is told inside, and reads the rest at each scrape. Prometheus' text format. Where all label values are known
 * from the start, the counters are there from the start, at 0: Prometheus sees no increase in one that appears at 1.
 */
@Injectable()
export class Metrics implements OnApplicationShutdown {
  readonly registry = new Registry();
  private readonly endings: (() => void)[] = [];
  /** Of the scrape under way; undefined while the database does not answer. */
  private figures: StoredFigures | undefined;

  constructor(
    private readonly stored: StoredFiguresReader,
    private readonly pool: PoolFigures,
  ) {
    collectDefaultMetrics({ register: this.registry });
    this.countRequests();
    this.countProviderCalls();
    this.countMessages();
    this.countScheduledRuns();
    this.readPool();
    this.readStored();
  }

  /** The text of a scrape. While the database is away what only it knows is left out. */
  async text(): Promise<string> {
    this.figures = await this.stored.read();
    return this.registry.metrics();
  }

  onApplicationShutdown(): void {
    for (const end of this.endings) end();
  }

  private countRequests(): void {
    const requests = this.counter('orders_idempotency_requests_total', 'Requests under a key', ['endpoint', 'outcome']);
    this.endings.push(listen('keyed-request', ({ endpoint, outcome }) => requests.inc({ endpoint, outcome })));
    const lost = this.counter('orders_idempotency_leases_lost_total', 'Leases that were lost to a new owner', [
      'endpoint',
    ]);
    this.endings.push(listen('lease-lost', ({ endpoint }) => lost.inc({ endpoint })));
  }

  private countProviderCalls(): void {
    const calls = new Histogram({
      name: 'orders_provider_call_seconds',
      help: 'Calls to providers',
      labelNames: ['provider', 'operation', 'outcome'],
      buckets: CALL_BUCKETS,
      registers: [this.registry],
    });
    this.endings.push(
      listen('provider-call', ({ provider, operation, outcome, milliseconds }) =>
        calls.observe({ provider, operation, outcome }, milliseconds / 1_000),
      ),
    );
    const duplicates = this.counter('orders_duplicate_effects_total', 'Effects found twice at a provider', [
      'provider',
      'operation',
    ]);
    for (const provider of SIGNAL_WORDS.provider) {
      for (const operation of ['charge', 'refund']) duplicates.inc({ provider, operation }, 0);
    }
    this.endings.push(listen('duplicate-effect', (found) => duplicates.inc({ ...found })));
  }

  private countMessages(): void {
    const deliveries = this.counter('orders_event_deliveries_total', 'Deliveries by the relay', ['outcome']);
    for (const outcome of SIGNAL_WORDS.deliveryOutcome) deliveries.inc({ outcome }, 0);
    this.endings.push(listen('event-delivery', ({ outcome }) => deliveries.inc({ outcome })));
    const deadEvents = this.counter('orders_events_dead_total', 'Events that the relay has put aside', []);
    this.endings.push(listen('event-dead', () => deadEvents.inc()));
    const messages = this.counter('orders_messages_total', 'Messages that consumers got', ['consumer', 'outcome']);
    this.endings.push(listen('message', ({ consumer, outcome }) => messages.inc({ consumer, outcome })));
    const deadMessages = this.counter('orders_messages_dead_total', 'Messages that were given up, by whose they were', [
      'consumer',
    ]);
    this.endings.push(listen('message-dead', ({ consumer }) => deadMessages.inc({ consumer })));
    this.endings.push(
      listen('consumer', ({ consumer }) => {
        for (const outcome of SIGNAL_WORDS.messageOutcome) messages.inc({ consumer, outcome }, 0);
        deadMessages.inc({ consumer }, 0);
      }),
    );
  }

  private countScheduledRuns(): void {
    const runs = this.counter('orders_scheduled_runs_total', 'Runs of work that is done on a schedule', [
      'work',
      'outcome',
    ]);
    this.endings.push(
      listen('schedule', ({ work }) => {
        for (const outcome of SIGNAL_WORDS.runOutcome) runs.inc({ work, outcome }, 0);
      }),
    );
    this.endings.push(listen('scheduled-run', ({ work, outcome }) => runs.inc({ work, outcome })));
  }

  private readPool(): void {
    const { pool } = this;
    new Gauge({
      name: 'orders_database_connections',
      help: 'Connections of this process, and requests that wait for one',
      labelNames: ['state'],
      registers: [this.registry],
      collect() {
        for (const [state, value] of Object.entries(pool.read())) this.set({ state }, value);
      },
    });
  }

  private readStored(): void {
    const { registry } = this;
    const read = () => this.figures;
    new Gauge({
      name: 'orders_idempotency_keys',
      help: 'Stored keys; the completed ones by the estimate of Postgres',
      labelNames: ['state'],
      registers: [registry],
      collect() {
        this.reset();
        const figures = read();
        if (!figures) return;
        this.set({ state: 'completed' }, figures.keysCompleted);
        this.set({ state: 'in_progress' }, figures.keysInProgress);
      },
    });
    for (const [figure, [name, help]] of Object.entries(STORED) as [keyof typeof STORED, [string, string]][]) {
      new Gauge({
        name,
        help,
        registers: [registry],
        collect() {
          const figures = read();
          if (figures) this.set(figures[figure]);
          else this.remove(); // `reset` would show 0
        },
      });
    }
  }

  private counter<Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }
}
