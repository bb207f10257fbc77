import { Injectable, Logger, type OnApplicationShutdown } from '@nestjs/common';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { listen } from '../config/telemetry.js';
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
  outboxOldest: ['orders_outbox_oldest_seconds', 'Age of the oldest event that is not published'],
  outboxDead: ['orders_outbox_dead', 'Events that were put aside and wait for a decision'],
  paymentsUnknown: ['orders_payments_unknown', 'Payments whose outcome is not known'],
  refundsUnknown: ['orders_refunds_unknown', 'Refunds whose outcome is not known'],
  reviewsOpen: ['orders_payment_reviews_open', 'Questions about payments that a person must decide'],
  surplusOpen: ['orders_surplus_charges_open', 'Surplus charges that are not given back yet'],
};

const logger = new Logger('Metrics');

/** Counts what is told inside, and reads the rest at each scrape. Prometheus' text format. */
@Injectable()
export class Metrics implements OnApplicationShutdown {
  readonly registry = new Registry();
  private readonly endings: (() => void)[] = [];

  constructor(
    private readonly stored: StoredFiguresReader,
    private readonly pool: PoolFigures,
  ) {
    collectDefaultMetrics({ register: this.registry });
    this.countRequests();
    this.countProviderCalls();
    this.countMessages();
    this.readPool();
    this.readStored();
  }

  /** The text of a scrape. While the database is away what only it knows is left out. */
  async text(): Promise<string> {
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
    ]);
    this.endings.push(listen('duplicate-effect', ({ provider }) => duplicates.inc({ provider })));
  }

  private countMessages(): void {
    const deliveries = this.counter('orders_event_deliveries_total', 'Deliveries by the relay', ['outcome']);
    this.endings.push(listen('event-delivery', ({ outcome }) => deliveries.inc({ outcome })));
    const messages = this.counter('orders_messages_total', 'Messages that consumers got', ['consumer', 'outcome']);
    this.endings.push(listen('message', ({ consumer, outcome }) => messages.inc({ consumer, outcome })));
  }

  private readPool(): void {
    const { pool } = this;
    const connections = new Gauge({
      name: 'orders_database_connections',
      help: 'Connections of this process, and requests that wait for one',
      labelNames: ['state'],
      registers: [this.registry],
      collect() {
        for (const [state, value] of Object.entries(pool.read())) this.set({ state }, value);
      },
    });
    void connections;
  }

  private readStored(): void {
    const { stored, registry } = this;
    const read = () =>
      stored.read().catch((error: unknown) => {
        logger.warn(`figures_not_read: ${String(error)}`);
        return undefined;
      });
    new Gauge({
      name: 'orders_idempotency_keys',
      help: 'Stored keys; the completed ones by the estimate of Postgres',
      labelNames: ['state'],
      registers: [registry],
      async collect() {
        this.reset();
        const figures = await read();
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
        async collect() {
          const figures = await read();
          if (figures) this.set(figures[figure]);
          else this.reset();
        },
      });
    }
  }

  private counter<Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }
}
