import type { KeyRecord } from './key-record.js';
import { type KeyScope, scopeId } from './key-scope.js';
import type { KeyedRequest } from './keyed-request.js';

/** How a wait for somebody else's request with the same key ended. */
export type Landing =
  | { readonly kind: 'recorded'; readonly record: KeyRecord }
  | { readonly kind: 'claimed-by-another-request'; readonly since: Date }
  | { readonly kind: 'ended-without-record' }
  | { readonly kind: 'timed-out' };

/**
 * One request on its way to the database, and the duplicates of it in this process that wait for its outcome. They hold
 * no connection, and get the record only once it is committed.
 */
export class Flight {
  private readonly waiters = new Set<{ request: KeyedRequest; land: (landing: Landing) => void }>();
  private owner: { readonly request: KeyedRequest; readonly since: Date } | undefined;

  /** The leader holds the key: from now on it is known whose it is. */
  claimedBy(request: KeyedRequest, since: Date): void {
    this.owner = { request, since };
    for (const waiter of this.waiters) {
      if (!isSameRequest(request, waiter.request)) waiter.land({ kind: 'claimed-by-another-request', since });
    }
  }

  /** Waits for the outcome, at most until `request.waitUntil`. */
  wait(request: KeyedRequest): Promise<Landing> {
    if (this.owner && !isSameRequest(this.owner.request, request)) {
      return Promise.resolve({ kind: 'claimed-by-another-request', since: this.owner.since });
    }
    return new Promise((resolve) => {
      const land = (landing: Landing) => {
        clearTimeout(timer);
        this.waiters.delete(waiter);
        resolve(landing);
      };
      const timer = setTimeout(() => land({ kind: 'timed-out' }), request.waitUntil - performance.now());
      const waiter = { request, land };
      this.waiters.add(waiter);
    });
  }

  land(record: KeyRecord | undefined): void {
    const landing: Landing = record ? { kind: 'recorded', record } : { kind: 'ended-without-record' };
    for (const waiter of [...this.waiters]) waiter.land(landing);
  }
}

/**
 * The requests of this process that are under way, one per key. Whoever finds none becomes the leader; when a leader
 * ends without a record, the first of its waiters to wake up finds none and so is elected.
 */
export class Flights {
  private readonly flights = new Map<string, Flight>();

  find(scope: KeyScope): Flight | undefined {
    return this.flights.get(scopeId(scope));
  }

  /** Runs `work` as the leader of that key. The record it comes back with is what the waiters get. */
  async lead<T extends { readonly record: KeyRecord }>(
    scope: KeyScope,
    work: (flight: Flight) => Promise<T>,
  ): Promise<T> {
    const id = scopeId(scope);
    const flight = new Flight();
    this.flights.set(id, flight);
    let record: KeyRecord | undefined;
    try {
      const result = await work(flight);
      record = result.record;
      return result;
    } finally {
      this.flights.delete(id);
      flight.land(record);
    }
  }
}

/** Fingerprints of one process always have the same version. */
function isSameRequest(one: KeyedRequest, other: KeyedRequest): boolean {
  return one.fingerprint.equals(other.fingerprint);
}
