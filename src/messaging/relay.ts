import { randomUUID } from 'node:crypto';
import {
  type BeforeApplicationShutdown,
  Inject,
  Injectable,
  Logger,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { tell } from '../config/telemetry.js';
import { AcrossTenants } from '../database/across-tenants.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { toCloudEvent } from './cloud-event.js';
import { MESSAGING_OPTIONS, type MessagingOptions } from './messaging.options.js';
import { Outbox } from './outbox.js';
import { Pause } from './pause.js';
import {
  buryKillersStatement,
  freeHeadsStatement,
  frontStatement,
  giveBackEventsStatement,
  lockHeadsStatement,
  MOST_BROKEN_OFF,
  publishedStatement,
  refusedStatement,
  SUSPICIOUS,
  type TakenEvent,
  takeStatement,
  TENANTS_WITH_EVENTS,
} from './relay-store.js';
import { EventRefusedError, EventTransport, TransportUnavailableError } from './transports/event-transport.js';

/** Of the lease: what remains is for the last delivery under way and for marking. */
const WORK_SHARE = 0.5;

/** What a relay has taken, and until when it may deliver it. */
interface Batch {
  readonly tenantId: string;
  readonly token: string;
  /** Clock of this process. */
  readonly until: number;
  readonly events: readonly TakenEvent[];
}

/** What became of the events of a batch. What is in neither list was not tried. */
interface Deliveries {
  readonly published: string[];
  readonly refused: { readonly id: string; readonly reason: string }[];
  unavailable?: Error;
}

/**
 * Moves events from the outbox to the transport: at least once, in the order of versions within each aggregate, and with
 * the same message id however often. Any number of relays may run. Each takes events under a lease with a token on the
 * database's clock, delivers them with no transaction open, and marks what was taken for good and is still its own.
 */
@Injectable()
export class Relay implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(Relay.name);
  private readonly pause: Pause;
  private running: Promise<void> | undefined;
  private stopping = false;

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    private readonly transport: EventTransport,
    private readonly outbox: Outbox,
    @Inject(MESSAGING_OPTIONS) private readonly options: MessagingOptions,
  ) {
    this.pause = new Pause(options.longestPause);
  }

  onApplicationBootstrap(): void {
    if (!this.transport.hasReceivers) return;
    this.outbox.onCommitted(() => this.pause.end());
    this.running = this.transport.start().then(() => this.work());
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.stopping = true;
    this.pause.end();
    await this.running;
    await this.transport.stop();
  }

  /** Delivers what is there now. @returns how many events were delivered */
  async run(): Promise<number> {
    if (!this.transport.isReady) throw new TransportUnavailableError('The transport is not ready');
    let published = 0;
    for (let round = await this.round(); round.taken > 0; round = await this.round()) published += round.published;
    return published;
  }

  /** A batch of each tenant: none waits until another has nothing more. */
  private async round(): Promise<{ readonly taken: number; readonly published: number }> {
    let taken = 0;
    let published = 0;
    for (const { tenant_id: tenantId } of await this.acrossTenants.query<{ tenant_id: string }>(TENANTS_WITH_EVENTS)) {
      if (this.stopping) break;
      const batch = await this.take(tenantId);
      if (!batch) continue;
      const deliveries = await this.deliver(batch);
      await this.mark(batch, deliveries);
      taken += batch.events.length;
      published += deliveries.published.length;
      if (deliveries.unavailable) throw deliveries.unavailable;
    }
    return { taken, published };
  }

  private async work(): Promise<void> {
    while (!this.stopping) {
      const taken = await this.round().then(
        (round) => round.taken,
        (error: unknown) => void this.logger.warn(`relay_waits: ${String(error)}`),
      );
      if (taken === undefined) await this.pause.longest();
      else if (taken > 0) this.pause.shorten();
      else await this.pause.next();
    }
  }

  private async take(tenantId: string): Promise<Batch | undefined> {
    const token = randomUUID();
    const begun = performance.now();
    const { relayLease } = this.options;
    const events = await this.unitOfWork.run(tenantId, async (transaction) => {
      const rows = async <Row extends Record<string, unknown>>({
        text,
        values = [],
      }: ReturnType<typeof takeStatement>) => transaction.query<Row>(text, values);
      const idsOf = (found: readonly { id: string }[]) => found.map(({ id }) => id);
      const heads = await rows<{ id: string; brokenOff: number }>(freeHeadsStatement(tenantId));
      const killers = heads.filter(({ brokenOff }) => brokenOff >= MOST_BROKEN_OFF);
      if (killers.length > 0) {
        const buried = await rows(buryKillersStatement(tenantId, idsOf(killers)));
        transaction.onCommitted(() => buried.forEach(() => tell('event-dead', {})));
      }
      const { chosen, alone } = choose(heads.filter((head) => !killers.includes(head)));
      if (chosen.length === 0) return [];
      const mine = await rows<{ id: string; aggregateid: string }>(lockHeadsStatement(tenantId, idsOf(chosen)));
      if (mine.length === 0) return [];
      const aggregates = mine.map(({ aggregateid }) => aggregateid);
      const front = alone ? mine : await rows<{ id: string }>(frontStatement(tenantId, aggregates));
      return rows<TakenEvent & Record<string, unknown>>(takeStatement(tenantId, idsOf(front), token, relayLease));
    });
    return events.length > 0 ? { tenantId, token, until: begun + relayLease * WORK_SHARE, events } : undefined;
  }

  /** Aggregates side by side, as many as the transport bears, and within each one event after the other. */
  private async deliver(batch: Batch): Promise<Deliveries> {
    const deliveries: Deliveries = { published: [], refused: [] };
    const lanes = new Map<string, TakenEvent[]>();
    for (const event of [...batch.events].sort((one, other) => one.aggregateVersion - other.aggregateVersion)) {
      lanes.set(event.subject, [...(lanes.get(event.subject) ?? []), event]);
    }
    const waiting = [...lanes.values()];
    const deliverNext = async () => {
      for (let lane = waiting.shift(); lane; lane = waiting.shift()) await this.deliverLane(batch, lane, deliveries);
    };
    await Promise.all(Array.from({ length: Math.min(this.transport.concurrency, waiting.length) }, deliverNext));
    return deliveries;
  }

  private async deliverLane({ tenantId, until }: Batch, lane: readonly TakenEvent[], deliveries: Deliveries) {
    for (const event of lane) {
      if (this.stopping || deliveries.unavailable || performance.now() > until) return;
      try {
        await this.transport.publish({ tenantId, envelope: toCloudEvent(event) }, until);
        deliveries.published.push(event.id);
        tell('event-delivery', { outcome: 'published' });
      } catch (error) {
        const isRefused = error instanceof EventRefusedError;
        tell('event-delivery', { outcome: isRefused ? 'refused' : 'unavailable' });
        if (isRefused) deliveries.refused.push({ id: event.id, reason: error.message });
        else deliveries.unavailable ??= error as Error;
        return;
      }
    }
  }

  private async mark({ tenantId, token, events }: Batch, { published, refused }: Deliveries): Promise<void> {
    const { firstDelay, attempts } = this.options;
    const tried = new Set([...published, ...refused.map(({ id }) => id)]);
    const untried = events.flatMap(({ id }) => (tried.has(id) ? [] : [id]));
    const statements = [
      ...(published.length > 0 ? [publishedStatement(tenantId, published, token)] : []),
      ...refused.map(({ id, reason }) => refusedStatement(tenantId, id, token, { reason, firstDelay, attempts })),
      ...(untried.length > 0 ? [giveBackEventsStatement(tenantId, untried, token)] : []),
    ];
    const results = await this.unitOfWork.run(tenantId, (transaction) =>
      transaction.flush<{ died?: boolean }>(statements),
    );
    for (const { id, reason } of refused) this.logger.warn(`event_refused: ${id}: ${reason}`);
    for (const { died } of results.flatMap(({ rows }) => rows)) if (died) tell('event-dead', {});
  }
}

/**
 * Of the free heads those that are taken at once. One in the middle of which relays have ended is taken alone: they may
 * have died of any in their batch, and those that did nothing must not be put aside with the one that did.
 */
function choose<Head extends { readonly brokenOff: number }>(
  heads: readonly Head[],
): { readonly chosen: readonly Head[]; readonly alone: boolean } {
  const suspects = heads.filter(({ brokenOff }) => brokenOff >= SUSPICIOUS);
  // By turns, so that neither waits for an end of the others; by chance, so that relays need not know of each other.
  const alone = suspects.length > 0 && (suspects.length === heads.length || Math.random() < 0.5);
  if (!alone) return { chosen: heads.filter((head) => !suspects.includes(head)), alone };
  return { chosen: [suspects[Math.floor(Math.random() * suspects.length)]!], alone };
}
