import { Injectable } from '@nestjs/common';
import { Consumers } from '../consumers.js';
import { EventRefusedError, EventTransport, type OutgoingEvent, TransportUnavailableError } from './event-transport.js';
import { isPassing } from './is-passing.js';

/**
 * Hands events to the consumers of this process, without a broker between. The guarantees are the same, and by the same
 * means: a consumer that has applied an event finds that in its inbox when it comes again.
 */
@Injectable()
export class LocalTransport extends EventTransport {
  /** Each takes a connection from the pool, for each of its consumers, and requests need some, too. */
  override readonly concurrency = 4;

  constructor(private readonly consumers: Consumers) {
    super();
  }

  get hasReceivers(): boolean {
    return this.consumers.all.length > 0;
  }

  async start(): Promise<void> {
    // There is nothing to connect to.
  }

  async publish({ tenantId, envelope }: OutgoingEvent): Promise<void> {
    const interested = this.consumers.all.filter(({ type }) => type === envelope.type);
    const bytes = Buffer.from(JSON.stringify(envelope));
    // Each of them is served, whatever becomes of the others; who has applied it already applies it no second time.
    const outcomes = await Promise.allSettled(
      interested.map((consumer) => this.consumers.apply(consumer, tenantId, bytes)),
    );
    const failures = outcomes.flatMap((outcome, index) =>
      outcome.status === 'rejected'
        ? [{ consumer: interested[index]!.consumer, error: outcome.reason as unknown }]
        : [],
    );
    const [first] = failures;
    if (!first) return;
    const worst = failures.find(({ error }) => !isPassing(error)) ?? first;
    const reason = `${worst.consumer}: ${String(worst.error)}`;
    if (isPassing(worst.error)) throw new TransportUnavailableError(reason, { cause: worst.error });
    throw new EventRefusedError(reason, { cause: worst.error });
  }

  async stop(): Promise<void> {
    // The relay waits for what it has handed over.
  }
}
