import { connect, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { type FuzzCase } from './fuzz-case.js';
import { AnswerReader, type RawAnswer } from './raw-answers.js';

/** Milliseconds that a client waits for the answer to what may not be a request before it ends its side. */
const PATIENCE = 200;
/** Milliseconds after which a connection counts as stuck. */
const STUCK = 20_000;

/** What came of a case. */
export interface Outcome {
  readonly answers: readonly RawAnswer[];
  /** The client waited for what there was to come. */
  readonly read: boolean;
  readonly trouble?: string;
}

/** Plays cases against one service, and keeps the connections that are to be left open. */
export class FuzzClient {
  private readonly left = new Set<Socket>();

  constructor(private readonly port: number) {}

  /** Ends what was left open. */
  close(): void {
    for (const socket of this.left) socket.destroy();
  }

  async play(testCase: FuzzCase): Promise<Outcome> {
    const connection = new Connection(
      this.port,
      testCase.requests.map(({ method }) => method),
    );
    try {
      await this.send(connection, testCase);
      return await this.finish(connection, testCase);
    } catch (error) {
      return { answers: connection.answers, read: true, trouble: (error as Error).message };
    } finally {
      if (!this.left.has(connection.socket)) connection.socket.destroy();
    }
  }

  private async send(connection: Connection, { manner, pieces, pause, sound }: FuzzCase): Promise<void> {
    await connection.opened;
    for (const [n, piece] of pieces.entries()) {
      if (connection.ended) return;
      connection.socket.write(piece);
      if (manner === 'slow') await setTimeout(pause);
      if (manner === 'sequential' && n < pieces.length - 1) await connection.wait(n + 1, sound ? STUCK : PATIENCE);
    }
  }

  private async finish(connection: Connection, testCase: FuzzCase): Promise<Outcome> {
    const { socket } = connection;
    const count = testCase.requests.length;
    if (testCase.manner === 'left') {
      this.left.add(socket);
      return { answers: connection.answers, read: false };
    }
    if (testCase.manner === 'cut') {
      if (testCase.rude) socket.resetAndDestroy();
      else await new Promise<void>((resolve) => socket.end(() => resolve()));
      return { answers: connection.answers, read: false };
    }
    if (testCase.sound) {
      await connection.wait(count, STUCK);
      // What comes after an answer that closes the connection is not answered, and the client has been told so.
      const closed = connection.answers.at(-1)?.headers.connection === 'close';
      const missing = closed ? 0 : count - connection.answers.length;
      const trouble = missing > 0 ? `${missing} of ${count} sound requests have no answer` : undefined;
      return { answers: connection.answers, read: true, trouble };
    }
    if (testCase.manner !== 'half') await connection.wait(Math.max(count, 1), PATIENCE);
    if (!connection.ended) socket.end();
    await connection.wait(Infinity, STUCK);
    const trouble = connection.ended ? undefined : 'the connection was not closed after the client had ended its side';
    return { answers: connection.answers, read: true, trouble };
  }
}

class Connection {
  readonly opened: Promise<void>;
  readonly socket: Socket;
  ended = false;
  private readonly reader: AnswerReader;
  private fault: Error | undefined;
  private changed: () => void = () => undefined;

  constructor(port: number, methods: readonly string[]) {
    this.reader = new AnswerReader(methods);
    this.socket = connect({ port, host: '127.0.0.1', noDelay: true });
    this.opened = new Promise((resolve, reject) => this.socket.once('connect', resolve).once('error', reject));
    this.socket.on('data', (chunk: Buffer) => {
      try {
        this.reader.push(chunk);
      } catch (error) {
        this.fault ??= error as Error;
      }
      this.changed();
    });
    this.socket.on('error', () => undefined); // 'close' follows
    for (const event of ['end', 'close']) {
      this.socket.on(event, () => {
        if (!this.ended) this.reader.end();
        this.ended = true;
        this.changed();
      });
    }
  }

  get answers(): readonly RawAnswer[] {
    return this.reader.answers;
  }

  /**
   * Until there are that many answers, or no more will come, or the time is over.
   *
   * @throws Error when what came is not HTTP
   */
  async wait(count: number, milliseconds: number): Promise<void> {
    const over = new AbortController();
    const late = setTimeout(milliseconds, undefined, { signal: over.signal }).catch(() => undefined);
    const done = new Promise<void>((resolve) => {
      this.changed = () => {
        if (this.fault || this.ended || this.answers.length >= count) resolve();
      };
      this.changed();
    });
    await Promise.race([done, late]);
    over.abort();
    if (this.fault) throw this.fault;
  }
}
