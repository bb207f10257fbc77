import { parseHttpDate } from './http-date.js';

/** Where a client takes time from; tests give their own. */
export interface Clock {
  /** Milliseconds since 1970. May be wrong, and jump. */
  now(): number;
  /** Milliseconds since any moment; never goes back. */
  monotonic(): number;
}

export const SYSTEM_CLOCK: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/**
 * The time here and at the server. A clock that is set back while the process runs makes nothing younger: what has gone
 * by is the greater of what the two local clocks say (the monotonic one stands still while a machine sleeps).
 */
export class Timekeeper {
  private readonly start: { readonly wall: number; readonly monotonic: number };
  private server: { readonly time: number; readonly elapsed: number } | undefined;

  constructor(private readonly clock: Clock) {
    this.start = { wall: clock.now(), monotonic: clock.monotonic() };
  }

  /** Milliseconds that have gone by, for deadlines. */
  monotonic(): number {
    return this.clock.monotonic();
  }

  /** Milliseconds since 1970 by this machine. */
  local(): number {
    return this.start.wall + this.elapsed();
  }

  /** Milliseconds since 1970 by the server; undefined before it said what time it is. */
  atServer(): number | undefined {
    return this.server && this.server.time + this.elapsed() - this.server.elapsed;
  }

  /** How much the server's clock is ahead, in milliseconds; undefined while not known. */
  serverOffset(): number | undefined {
    const server = this.atServer();
    return server === undefined ? undefined : server - this.local();
  }

  /**
   * Learns from an answer's `Date` (RFC 9110, section 6.6.1). An earlier one than expected is ignored: it is from a cache,
   * or rounded down, and would make intents younger than they are.
   */
  hear(headers: Headers): void {
    const time = parseHttpDate(headers.get('date') ?? '', this.local());
    if (time === undefined || time < (this.atServer() ?? -Infinity)) return;
    this.server = { time, elapsed: this.elapsed() };
  }

  private elapsed(): number {
    return Math.max(this.clock.now() - this.start.wall, this.clock.monotonic() - this.start.monotonic, 0);
  }
}
