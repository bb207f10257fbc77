import { connect, createServer, type AddressInfo, type NetConnectOpts, type Server, type Socket } from 'node:net';
import { setImmediate } from 'node:timers';
import {
  isPending,
  ProxyConnection,
  type ConnectionOwner,
  type Judgement,
  type Verdict,
} from './postgres-proxy-connection.js';
import { PostgresRecording } from './postgres-recording.js';
import type { WireMessage } from './postgres-wire.js';

export type { Judgement, PostgresRecording, Verdict, WireMessage };

/** A test for messages. */
export type Predicate = (message: WireMessage) => boolean;

/** Decides what becomes of a message. */
export type Hook = (message: WireMessage) => Judgement;

/** A message that is held until the test lets it go. */
export interface Hold {
  /** Resolves when the message has arrived at the proxy; it has not been passed on. */
  reached: Promise<WireMessage>;
  /** Lets it go, by `pass` or another verdict; before it was reached, it will not be held at all. */
  release(verdict?: Verdict): void;
}

/**
 * The moments of a statement's life, as predicates for `once` and `hold`. A string is the whole statement (case, spaces
 * around it and a closing semicolon apart), a RegExp is searched for in it.
 */
export const statement = {
  /** Its first message: nothing of it has reached Postgres. With `cut`, it never does. */
  starts:
    (sql: string | RegExp): Predicate =>
    (m) =>
      m.side === 'frontend' && m.first === true && matches(m.sql, sql),
  /** Its last message (Query or Sync). With `pass-then-cut`, Postgres carries it out and the client never hears of it. */
  isSent:
    (sql: string | RegExp): Predicate =>
    (m) =>
      m.side === 'frontend' && m.last === true && matches(m.sql, sql),
  /** Its CommandComplete or ErrorResponse, on the way to the client. */
  isAnswered:
    (sql: string | RegExp): Predicate =>
    (m) =>
      (m.type === 'CommandComplete' || m.type === 'ErrorResponse') && matches(m.sql, sql),
};

/**
 * Stands between the service and Postgres and reads what they say to each other, so that a test can act at an exact
 * point of the conversation (no sleeps) and count how often a client waited.
 *
 * Limits: no TLS (an SSLRequest is answered `N`), no back pressure (answers are buffered in memory).
 *
 * @example
 * const proxy = await PostgresProxy.start(databaseUrl);
 * const lost = proxy.once(statement.isSent('COMMIT'), 'pass-then-cut');
 * const response = await createOrder(appOn(proxy.url)); // 503 outcome-unknown
 * await lost;
 */
export class PostgresProxy {
  /** Like the upstream's, credentials and database included, but through the proxy. */
  readonly url: string;
  /** Called for each message of a client before it is passed on. */
  onFrontend?: Hook;
  /** Called for each message of Postgres before it is passed on. */
  onBackend?: Hook;

  private readonly open = new Set<ProxyConnection>();
  private readonly all = new Set<ProxyConnection>();
  private readonly rules = new Set<{ predicate: Predicate; fire: Hook; abandon: () => void }>();
  private readonly recordings = new Set<PostgresRecording>();
  private readonly faults: unknown[] = [];
  private accepted = 0;
  private refusing = false;

  private constructor(
    private readonly listener: Server,
    private readonly upstream: URL,
    quietRounds: number,
  ) {
    const url = new URL(upstream);
    url.searchParams.delete('host');
    url.searchParams.delete('port');
    url.hostname = '127.0.0.1';
    url.port = String((listener.address() as AddressInfo).port);
    this.url = url.href;
    const { open, all, recordings, faults } = this;
    const owner: ConnectionOwner = {
      quietRounds,
      get recording() {
        return recordings.size > 0;
      },
      judge: (message) => this.judge(message),
      sent: (message) => recordings.forEach((recording) => recording.add(message)),
      answered: (connection) => recordings.forEach((recording) => recording.endTurn(connection)),
      clientGone: (connection) => open.delete(connection),
      closed: (connection) => all.delete(connection),
      failed: (error) => faults.push(error),
    };
    listener.on('connection', (client) => this.accommodate(client, owner));
  }

  /**
   * @param upstreamUrl the real database, `postgres://user:password@host:port/database` or with `?host=/socket/folder`.
   * @param options `quietRounds`: see {@link record} (5).
   */
  static async start(upstreamUrl: string, { quietRounds = 5 } = {}): Promise<PostgresProxy> {
    const upstream = new URL(upstreamUrl);
    const listener = createServer({ allowHalfOpen: true });
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    return new PostgresProxy(listener, upstream, quietRounds);
  }

  /** Clients connected now. */
  get connections(): number {
    return this.open.size;
  }

  /** Loses every connection, as a crashed database or a dead network does. New ones are taken: see {@link refuse}. */
  cutAll(): void {
    for (const connection of [...this.open]) connection.sever();
  }

  /** The database is away: new connections are reset until `accept()`. Those that stand are left: see {@link cutAll}. */
  refuse(): void {
    this.refusing = true;
  }

  /** Takes new connections again. */
  accept(): void {
    this.refusing = false;
  }

  /**
   * Arms a rule for the first message that fits; it goes before the hooks. A verdict can be a function, and what it
   * awaits holds the message: to end a child exactly here, kill it in there.
   *
   * @returns a promise that resolves with the message once the verdict is carried out; rejects when the proxy stops first.
   * @example
   * await proxy.once(statement.isAnswered('COMMIT'), async () => {
   *   await service.kill();
   *   return 'cut';
   * });
   */
  once(predicate: Predicate, verdict: Verdict | Hook): Promise<WireMessage> {
    return this.arm(predicate, (message, fired, failed) => {
      const judgement = typeof verdict === 'function' ? verdict(message) : verdict;
      if (isPending(judgement)) judgement.then(() => setImmediate(fired), failed);
      else setImmediate(fired);
      return judgement;
    });
  }

  /**
   * Holds the first message that fits, and with it that direction of that connection.
   *
   * @example
   * const commit = proxy.hold(statement.starts('COMMIT'));
   * const first = createOrder(); // not awaited
   * await commit.reached; // the claim is there and not committed
   * commit.release();
   */
  hold(predicate: Predicate): Hold {
    let release: (verdict: Verdict) => void = () => undefined;
    const released = new Promise<Verdict>((resolve) => (release = resolve));
    const reached = this.arm(predicate, (_, fired) => {
      fired();
      return released;
    });
    return { reached, release: (verdict = 'pass') => release(verdict) };
  }

  /**
   * Records statements and waits, login apart. A turn is what a client sends without needing an answer to any of it; each
   * turn is one wait. N statements sent before any answer came are one turn; a client that needs *any* of those answers
   * before it sends on begins another.
   *
   * To decide that without looking at packets or clocks, the proxy holds all answers back while it records, until
   * everything the client sent is answered completely *and* the event loop has gone round `quietRounds` times without a
   * byte from that client. A message that comes before cannot have needed an answer, so it belongs to the turn; one that
   * comes after opens the next. So no wait is ever missed. One too many is counted only for a client that needed no
   * answer and still was silent for so long: in the proxy's own process (where a byte written is there at the next
   * round) only if it awaited something else meanwhile. For a client in another process the rounds are no measure: start
   * the proxy with some thousands of `quietRounds`, or count in process.
   *
   * A part of an answer is given out early only on Flush and for COPY FROM STDIN, and ends the turn.
   */
  record(): PostgresRecording {
    const recording = new PostgresRecording((stopped) => {
      this.recordings.delete(stopped);
      if (this.recordings.size === 0) this.all.forEach((connection) => connection.uncork());
    });
    this.recordings.add(recording);
    return recording;
  }

  /**
   * Ends all connections and the proxy.
   *
   * @throws whatever a predicate or hook threw; the connection that met it was cut.
   */
  async stop(): Promise<void> {
    for (const rule of this.rules) rule.abandon();
    this.rules.clear();
    const closed = new Promise((resolve) => this.listener.close(resolve));
    for (const connection of [...this.all]) connection.destroy();
    await closed;
    if (this.faults.length > 0) throw this.faults[0];
  }

  private accommodate(client: Socket, owner: ConnectionOwner): void {
    if (this.refusing) {
      client.on('error', () => undefined);
      client.resetAndDestroy();
      return;
    }
    this.accepted += 1;
    const server = connect({ ...target(this.upstream), allowHalfOpen: true });
    const connection = new ProxyConnection(this.accepted, client, server, owner);
    this.open.add(connection);
    this.all.add(connection);
  }

  private judge(message: WireMessage): Judgement {
    for (const rule of this.rules) {
      if (!rule.predicate(message)) continue;
      this.rules.delete(rule);
      return rule.fire(message);
    }
    return (message.side === 'frontend' ? this.onFrontend : this.onBackend)?.(message);
  }

  private arm(
    predicate: Predicate,
    act: (message: WireMessage, fired: () => void, failed: (error: unknown) => void) => Judgement,
  ): Promise<WireMessage> {
    const done = new Promise<WireMessage>((resolve, reject) => {
      this.rules.add({
        predicate,
        fire: (message) => act(message, () => resolve(message), reject),
        abandon: () => reject(new Error(`the proxy was stopped before this happened: ${predicate.toString()}`)),
      });
    });
    done.catch(() => undefined); // a test need not await it
    return done;
  }
}

function target(upstream: URL): NetConnectOpts {
  const port = Number(upstream.searchParams.get('port') ?? upstream.port) || 5432;
  const host = upstream.searchParams.get('host') ?? decodeURIComponent(upstream.hostname).replace(/^\[|\]$/g, '');
  return host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host: host || '127.0.0.1', port };
}

function matches(sql: string | undefined, wanted: string | RegExp): boolean {
  if (sql === undefined) return false;
  if (wanted instanceof RegExp) return sql.search(wanted) >= 0;
  const bare = (statement: string): string => statement.trim().replace(/;$/, '').toLowerCase();
  return bare(sql) === bare(wanted);
}
