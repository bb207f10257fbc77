import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers';
import { Conversation, MessageSplitter, type RawMessage, type WireMessage } from './postgres-wire.js';

/**
 * What becomes of a message:
 * - `pass` (the default): it goes on to its receiver.
 * - `drop`: it is swallowed, the connection lives on.
 * - `cut`: it is not passed on, and the connection is lost for both. What was passed before still reaches its receiver.
 * - `pass-then-cut`: its receiver gets it, and then the connection is lost. For a client's message that means: Postgres
 *   carries it out, and the client is cut off at once, before any answer.
 */
export type Verdict = 'pass' | 'drop' | 'cut' | 'pass-then-cut';

/** A verdict, now or later; until it is there, that direction of that connection is held. */
export type Judgement = Verdict | void | Promise<Verdict | void>;

/** What a connection needs of its proxy. */
export interface ConnectionOwner {
  /** Whether a recording runs, so that answers are held back until the client's turn is complete. */
  readonly recording: boolean;
  readonly quietRounds: number;
  judge(message: WireMessage): Judgement;
  /** A message came from the client (before any verdict). */
  sent(message: WireMessage): void;
  /** The client now has the whole answer to all it sent. */
  answered(connection: number): void;
  clientGone(connection: ProxyConnection): void;
  closed(connection: ProxyConnection): void;
  failed(error: unknown): void;
}

/** Messages of one direction, handled strictly one after the other, synchronously unless a verdict is awaited. */
class Lane<T> {
  private readonly waiting: T[] = [];
  private running = false;

  constructor(
    private readonly handle: (item: T) => void | Promise<void>,
    private readonly failed: (error: unknown) => void,
  ) {}

  get isEmpty(): boolean {
    return this.waiting.length === 0;
  }

  push(items: T[]): void {
    this.waiting.push(...items);
    if (!this.running) void this.run();
  }

  clear(): void {
    this.waiting.length = 0;
  }

  private async run(): Promise<void> {
    this.running = true;
    try {
      for (let item = this.waiting[0]; item !== undefined; item = this.waiting[0]) {
        const held = this.handle(item);
        if (held) await held;
        this.waiting.shift();
      }
    } catch (error) {
      this.failed(error);
    } finally {
      this.running = false;
    }
  }
}

type Item<T> = T | 'end';

/** One client and its connection to Postgres. */
export class ProxyConnection {
  private readonly conversation: Conversation;
  private readonly fromClient = new MessageSplitter(true);
  private readonly fromServer = new MessageSplitter(false);
  private readonly frontend: Lane<Item<{ message: WireMessage; bytes: Buffer }>>;
  private readonly backend: Lane<Item<RawMessage>>;
  private corked: Buffer[] = [];
  private arrivals = 0;
  private watching = false;
  private clientAwaits = false;
  private severed = false;
  private readonly ended = { client: false, server: false };

  constructor(
    readonly id: number,
    private readonly client: Socket,
    private readonly server: Socket,
    private readonly owner: ConnectionOwner,
  ) {
    this.conversation = new Conversation(id);
    const failed = (error: unknown): void => this.fail(error);
    this.frontend = new Lane((item) => this.takeFrontend(item), failed);
    this.backend = new Lane((item) => this.takeBackend(item), failed);
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      socket.on('error', () => undefined); // 'close' follows
    }
    client.on('data', (chunk: Buffer) => this.clientSaid(chunk));
    server.on('data', (chunk: Buffer) => this.serverSaid(chunk));
    for (const event of ['end', 'close']) {
      client.on(event, () => this.end('client'));
      server.on(event, () => this.end('server'));
    }
    client.on('close', () => this.server.destroyed && owner.closed(this));
    server.on('close', () => this.client.destroyed && owner.closed(this));
  }

  /** Loses the connection for both. Postgres still gets what was passed to it; its answers go nowhere. */
  sever(flushClient = false): void {
    if (this.severed) return;
    this.severed = true;
    this.frontend.clear();
    this.backend.clear();
    if (flushClient) {
      this.uncork();
      this.client.destroySoon();
    } else {
      this.client.destroy();
    }
    // Not destroyed: closing a socket with unread answers sends a reset, and a reset makes Postgres forget a COMMIT
    // that it has not read yet.
    this.server.end();
    this.owner.clientGone(this);
  }

  /** Frees both sockets at once. */
  destroy(): void {
    this.sever();
    this.server.destroy();
  }

  /** Hands the client whatever is held back. */
  uncork(): void {
    const held = this.corked;
    this.corked = [];
    if (held.length > 0) this.toClient(Buffer.concat(held));
  }

  private clientSaid(chunk: Buffer): void {
    if (this.severed) return;
    this.arrivals += 1;
    this.server.cork();
    try {
      const items = this.fromClient.push(chunk).flatMap((raw) => {
        const message = this.conversation.readFrontend(raw);
        if (message.type === 'SSLRequest' || message.type === 'GSSENCRequest') {
          this.client.write('N'); // encrypted, there would be nothing to read
          return [];
        }
        this.clientAwaits = message.type === 'Flush';
        this.owner.sent(message);
        return [{ message, bytes: raw.bytes }];
      });
      this.frontend.push(items);
    } catch (error) {
      this.fail(error);
    } finally {
      this.server.uncork();
    }
  }

  private serverSaid(chunk: Buffer): void {
    if (this.severed) return;
    this.client.cork();
    try {
      this.backend.push(this.fromServer.push(chunk));
    } catch (error) {
      this.fail(error);
    } finally {
      this.client.uncork();
    }
  }

  private end(side: 'client' | 'server'): void {
    if (this.severed || this.ended[side]) return;
    this.ended[side] = true;
    if (side === 'client') this.frontend.push(['end']);
    else this.backend.push(['end']);
  }

  private takeFrontend(item: Item<{ message: WireMessage; bytes: Buffer }>): void | Promise<void> {
    if (item === 'end') {
      this.server.end();
      return this.owner.clientGone(this);
    }
    return whenJudged(this.owner.judge(item.message), (verdict) => {
      if (this.severed) return;
      if (verdict.startsWith('pass')) {
        this.conversation.expectAnswer(item.message);
        if (this.server.writable) this.server.write(item.bytes);
      }
      if (verdict.endsWith('cut')) return this.sever();
      if (verdict === 'drop') setImmediate(() => this.deliverWhenComplete());
    });
  }

  private takeBackend(item: Item<RawMessage>): void | Promise<void> {
    if (item === 'end') return this.sever(true);
    const wasOpen = this.conversation.isOpen;
    const message = this.conversation.readBackend(item);
    return whenJudged(this.owner.judge(message), (verdict) => {
      if (this.severed) return;
      if (verdict.startsWith('pass')) {
        if (this.owner.recording && wasOpen) this.corked.push(item.bytes);
        else this.toClient(item.bytes);
      }
      if (verdict.endsWith('cut')) return this.sever(true);
      if (message.type === 'CopyInResponse' || message.type === 'CopyBothResponse') this.clientAwaits = true;
      this.deliverWhenComplete();
    });
  }

  private toClient(bytes: Buffer): void {
    if (this.client.writable) this.client.write(bytes);
  }

  /** The turn is over when all the client sent is answered, or when it asked (Flush, COPY) for a part of the answer. */
  private get turnIsComplete(): boolean {
    if (this.clientAwaits) return true;
    return this.conversation.isIdle && this.frontend.isEmpty && !this.fromClient.partial;
  }

  private deliverWhenComplete(): void {
    if (this.watching || this.corked.length === 0 || !this.turnIsComplete) return;
    this.watching = true;
    let arrivals = this.arrivals;
    let quiet = 0;
    const look = (): void => {
      quiet = arrivals === this.arrivals ? quiet + 1 : 0;
      arrivals = this.arrivals;
      if (this.turnIsComplete && quiet < this.owner.quietRounds) {
        setImmediate(look);
        return;
      }
      this.watching = false;
      if (!this.turnIsComplete) return; // the next answer looks again
      this.uncork();
      this.owner.answered(this.id);
    };
    setImmediate(look);
  }

  private fail(error: unknown): void {
    this.owner.failed(error);
    this.destroy();
  }
}

function whenJudged(judgement: Judgement, apply: (verdict: Verdict) => void): void | Promise<void> {
  if (isPending(judgement)) return judgement.then((verdict) => apply(verdict ?? 'pass'));
  apply(judgement ?? 'pass');
}

/** Not `instanceof`: inside Jest, promises of Node's own modules are of another realm. */
export function isPending(judgement: Judgement): judgement is Promise<Verdict | void> {
  return typeof judgement === 'object';
}
