import type { HttpMessage, HttpProxy } from './http-proxy.js';
import type { PostgresProxy, WireMessage } from './postgres-proxy.js';

/** Which way a message goes: to Postgres and back, to a provider and back. */
export type Way = 'statement' | 'result' | 'call' | 'reply';

/** One message of a course, the place for one fault: just before it is delivered. */
export interface Boundary {
  readonly way: Way;
  /** From 0, among the messages of the same way: of two ways, either may come first. */
  readonly nth: number;
  /** The statement, or the method and path. */
  readonly what: string;
}

/** What happens to a message instead of its delivery, before its connection is cut. */
export type Fault = () => Promise<void> | void;

interface Target {
  readonly boundary: Boundary;
  /** What comes by until then, of messages of the same way. */
  readonly expected: readonly string[];
  readonly fault: Fault;
  readonly reached: (reached: boolean) => void;
}

/** Not part of a course: the login, which is looked up now and then, and what each new connection is told. */
const APART = /\bapi_keys\b|^SET statement_timeout/;

/**
 * Reads all that a service says to Postgres and to its providers, in order, and strikes at one message of it. What there is
 * to strike at is found out by listening to a course that nothing happens to.
 *
 * @example
 * const boundaries = await wire.listen(() => pay());
 * const { struck } = wire.strike(boundaries[7]!, boundaries);
 */
export class Wire {
  private heard: Boundary[] | undefined;
  private target: Target | undefined;
  private readonly counts = new Map<Way, number>();
  /** Connections whose statement is answered in part: of several commands in one message only the first answer counts. */
  private readonly answering = new Set<number>();

  constructor(postgres: PostgresProxy, provider: HttpProxy) {
    postgres.onFrontend = (message) => (message.first ? this.pass('statement', sqlOf(message)) : undefined);
    postgres.onBackend = (message) => this.result(message);
    provider.onMessage = (message) => this.pass(message.side === 'request' ? 'call' : 'reply', pathOf(message));
  }

  /** Every message of a course, in the order in which they came by. */
  async listen(course: () => Promise<unknown>): Promise<Boundary[]> {
    this.counts.clear();
    const heard: Boundary[] = [];
    this.heard = heard;
    try {
      await course();
    } finally {
      this.heard = undefined;
    }
    return heard;
  }

  /**
   * Arms a fault for one message of the course that begins now.
   *
   * @param course as it was heard: where this one goes another way before it comes there, it is left in peace
   * @returns `struck`: false when it went another way, or was disarmed before it came there
   */
  strike(
    boundary: Boundary,
    course: readonly Boundary[],
    fault: Fault = () => undefined,
  ): { struck: Promise<boolean>; disarm: () => void } {
    this.counts.clear();
    let reached: (reached: boolean) => void = () => undefined;
    const struck = new Promise<boolean>((resolve) => (reached = resolve));
    const expected = course.filter(({ way }) => way === boundary.way).map(({ what }) => kindOf(what));
    const target = { boundary, expected, fault, reached };
    this.target = target;
    const disarm = () => {
      if (this.target !== target) return;
      this.target = undefined;
      reached(false);
    };
    return { struck, disarm };
  }

  private result(message: WireMessage): Promise<'cut'> | undefined {
    const { connection, type } = message;
    if (type === 'ReadyForQuery') this.answering.delete(connection);
    if ((type !== 'CommandComplete' && type !== 'ErrorResponse') || this.answering.has(connection)) return undefined;
    this.answering.add(connection);
    return this.pass('result', sqlOf(message));
  }

  private pass(way: Way, what: string | undefined): Promise<'cut'> | undefined {
    if (what === undefined || APART.test(what)) return undefined;
    const nth = this.counts.get(way) ?? 0;
    this.counts.set(way, nth + 1);
    this.heard?.push({ way, nth, what });
    const { target } = this;
    if (target?.boundary.way !== way) return undefined;
    const isAstray = kindOf(what) !== target.expected[nth];
    if (!isAstray && target.boundary.nth !== nth) return undefined;
    this.target = undefined;
    if (!isAstray) return this.cut(target);
    target.reached(false);
    return undefined;
  }

  private async cut({ fault, reached }: Target): Promise<'cut'> {
    await fault();
    reached(true);
    return 'cut';
  }
}

/** For people: `before statement 7: UPDATE orders SET ...`. */
export function describeBoundary({ way, nth, what }: Boundary): string {
  const delivered = way === 'statement' || way === 'call' ? 'before' : 'before the answer to';
  return `${delivered} ${way === 'result' ? 'statement' : way === 'reply' ? 'call' : way} ${nth}: ${what.slice(0, 70)}`;
}

/** The same in each course: without the ids and the waits that differ. */
function kindOf(what: string): string {
  return what.replace(/\b[a-z]+_\w{14,}\b|\b[\da-f]{8}-[\da-f-]{27}\b|\d+/g, '#');
}

function sqlOf({ sql }: WireMessage): string | undefined {
  return sql?.trim().replace(/\s+/g, ' ');
}

function pathOf({ method, path }: HttpMessage): string {
  return `${method} ${path.replace(/\?.*/, '')}`;
}

/** Fits the n-th message that the predicate fits, from 1. */
export function nth(n: number, fits: (message: WireMessage) => boolean): (message: WireMessage) => boolean {
  let seen = 0;
  return (message) => fits(message) && ++seen === n;
}
