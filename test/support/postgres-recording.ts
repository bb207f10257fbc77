import type { WireMessage } from './postgres-wire.js';

/** What clients sent, and how often they waited for it, from `record()` to `stop()`. */
export class PostgresRecording {
  /** Statements in the order in which they came to the proxy; a Query of several is one text. */
  readonly statements: { connection: number; sql: string }[] = [];
  /** The bursts, each with its statements: print them when a count is off. */
  readonly turns: { connection: number; statements: string[] }[] = [];
  private readonly current = new Map<number, { statements: string[] }>();

  constructor(private readonly stopped: (recording: PostgresRecording) => void) {}

  /** How many times a client waited on the wire: the number of turns (PostgresProxy.record says what a turn is). */
  get waits(): number {
    return this.turns.length;
  }

  /** Ends the recording; what it has stays readable. */
  stop(): this {
    this.stopped(this);
    return this;
  }

  /** @internal */
  add({ connection, type, sql }: WireMessage): void {
    if (/^(StartupMessage|PasswordMessage|CancelRequest|Terminate)$/.test(type)) return;
    let turn = this.current.get(connection);
    if (!turn) {
      const opened = { connection, statements: [] };
      this.turns.push(opened);
      this.current.set(connection, (turn = opened));
    }
    if ((type !== 'Query' && type !== 'Execute') || sql === undefined) return;
    this.statements.push({ connection, sql });
    turn.statements.push(sql);
  }

  /** @internal */
  endTurn(connection: number): void {
    this.current.delete(connection);
  }
}
