import type { CloudEvent } from '../cloud-event.js';

/** An event on its way out, with the same id however often it is sent. */
export interface OutgoingEvent {
  readonly tenantId: string;
  /** What the message says; its id is the message's. */
  readonly envelope: CloudEvent;
}

/** This event could not be delivered, and others may be: it counts as an attempt. */
export class EventRefusedError extends Error {
  override readonly name = 'EventRefusedError';
}

/** Nothing can be delivered at the moment, which says nothing about the event. */
export class TransportUnavailableError extends Error {
  override readonly name = 'TransportUnavailableError';
}

/** Where events go. */
export abstract class EventTransport {
  /** Whether anybody is there to take events; if not, the relay has nothing to do. */
  abstract readonly hasReceivers: boolean;

  /** Whether {@link publish} has a chance: while it has none, nothing is taken from the outbox only to be given back. */
  get isReady(): boolean {
    return true;
  }

  /** How many events it is given at once. */
  readonly concurrency: number = Number.POSITIVE_INFINITY;

  /** Connects, and goes on trying by itself when that fails. */
  abstract start(): Promise<void>;

  /**
   * Hands an event over. Resolves once it is taken for good: when the relay dies behind this, nothing is lost.
   *
   * @param deadline {@link performance.now} by which it must have an end
   * @throws EventRefusedError, TransportUnavailableError
   */
  abstract publish(event: OutgoingEvent, deadline: number): Promise<void>;

  /** Ends in order: what is being delivered is finished. */
  abstract stop(): Promise<void>;
}
