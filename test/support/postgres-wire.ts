/** Who sent a message: the client (`frontend`) or Postgres (`backend`). */
export type Side = 'frontend' | 'backend';

/** One message of the Postgres wire protocol 3, read by the proxy. */
export interface WireMessage {
  side: Side;
  /** Number of the connection, from 1, in the order in which clients came. */
  connection: number;
  /** The protocol's own name: `Query`, `Parse`, `Bind`, `Execute`, `Sync`, `CommandComplete`, `ReadyForQuery` ... */
  type: string;
  /** The statement it belongs to. Bind, Execute: of its Parse. Sync: of the last Execute before. Backend: the one answered. */
  sql?: string;
  /** First message of a statement: nothing of it has reached Postgres. */
  first?: boolean;
  /** Last message of a statement (Query, Sync): with it Postgres has everything. */
  last?: boolean;
  /** Tag of CommandComplete, such as `COMMIT` or `INSERT 0 1`. */
  tag?: string;
  /** SQLSTATE of ErrorResponse and NoticeResponse. */
  code?: string;
  /** Of ReadyForQuery: idle, in a transaction, in a failed transaction. */
  transactionStatus?: 'I' | 'T' | 'E';
}

/** A message cut out of the stream, not yet understood. `letter` is '' for the untyped packets that open a connection. */
export interface RawMessage {
  letter: string;
  bytes: Buffer;
}

const FRONTEND_TYPES: Record<string, string> = {
  ...{ Q: 'Query', P: 'Parse', B: 'Bind', D: 'Describe', E: 'Execute', C: 'Close', S: 'Sync', H: 'Flush' },
  ...{ X: 'Terminate', F: 'FunctionCall', p: 'PasswordMessage', d: 'CopyData', c: 'CopyDone', f: 'CopyFail' },
};

const BACKEND_TYPES: Record<string, string> = {
  ...{
    R: 'Authentication',
    K: 'BackendKeyData',
    S: 'ParameterStatus',
    Z: 'ReadyForQuery',
    T: 'RowDescription',
  },
  ...{
    t: 'ParameterDescription',
    D: 'DataRow',
    C: 'CommandComplete',
    I: 'EmptyQueryResponse',
    E: 'ErrorResponse',
  },
  ...{
    N: 'NoticeResponse',
    A: 'NotificationResponse',
    n: 'NoData',
    s: 'PortalSuspended',
    V: 'FunctionCallResponse',
  },
  ...{ 1: 'ParseComplete', 2: 'BindComplete', 3: 'CloseComplete', v: 'NegotiateProtocolVersion' },
  ...{ G: 'CopyInResponse', H: 'CopyOutResponse', W: 'CopyBothResponse', d: 'CopyData', c: 'CopyDone' },
};

const OPENING_TYPES: Record<number, string> = {
  80877102: 'CancelRequest',
  80877103: 'SSLRequest',
  80877104: 'GSSENCRequest',
};

/** Cuts a byte stream into messages, whatever the chunks it arrives in. */
export class MessageSplitter {
  private chunks: Buffer[] = [];
  private size = 0;
  private needed = 0;

  /** @param opening whether untyped packets (start-up, SSL, cancel) come first, as they do from a client. */
  constructor(private opening: boolean) {}

  /** Whether a message has begun that is not complete yet. */
  get partial(): boolean {
    return this.size > 0;
  }

  /** @throws Error when the bytes cannot be the Postgres protocol (TLS without asking, for example). */
  push(chunk: Buffer): RawMessage[] {
    this.chunks.push(chunk);
    this.size += chunk.length;
    if (this.size < this.needed) return [];
    let rest = Buffer.concat(this.chunks);
    const messages: RawMessage[] = [];
    for (;;) {
      const header = this.opening ? 0 : 1;
      this.needed = header + 4;
      if (rest.length < this.needed) break;
      const length = rest.readInt32BE(header);
      if (length < 4 || (this.opening && (length < 8 || length > 10_000))) {
        throw new Error(`not the Postgres protocol: a message of ${length} bytes`);
      }
      this.needed = header + length;
      if (rest.length < this.needed) break;
      const bytes = rest.subarray(0, this.needed);
      messages.push({ letter: this.opening ? '' : String.fromCharCode(bytes[0] ?? 0), bytes });
      if (this.opening && !(bytes.readInt32BE(4) in OPENING_TYPES)) this.opening = false;
      rest = rest.subarray(this.needed);
    }
    this.chunks = rest.length > 0 ? [rest] : [];
    this.size = rest.length;
    return messages;
  }
}

/**
 * What is said on one connection: gives each message its statement, by keeping the names of statements and portals and
 * the list of answers that Postgres still owes.
 */
export class Conversation {
  private readonly statements = new Map<string, string>();
  private readonly portals = new Map<string, string | undefined>();
  private readonly owed: { type: string; sql?: string }[] = [];
  private latestSql: string | undefined;
  private parsed = false;
  private skipsToSync = false;
  private opened = false;

  constructor(private readonly connection: number) {}

  /** Whether login is over, that is, the first ReadyForQuery has been seen. */
  get isOpen(): boolean {
    return this.opened;
  }

  /** Whether Postgres owes no answer to anything it was sent. */
  get isIdle(): boolean {
    return this.owed.length === 0 && !this.skipsToSync;
  }

  /** Reads a client's message; to be called once for each, in order of arrival. */
  readFrontend({ letter, bytes }: RawMessage): WireMessage {
    const known = letter === '' ? (OPENING_TYPES[bytes.readInt32BE(4)] ?? 'StartupMessage') : FRONTEND_TYPES[letter];
    const type = known ?? `Unknown(${letter})`;
    const message: WireMessage = { side: 'frontend', connection: this.connection, type };
    if (type === 'Query') {
      message.sql = text(bytes, 5);
      message.first = message.last = true;
      this.parsed = false;
    } else if (type === 'Parse') {
      const name = text(bytes, 5);
      message.sql = text(bytes, 6 + Buffer.byteLength(name));
      message.first = this.parsed = true;
      this.statements.set(name, message.sql);
      this.latestSql = message.sql;
    } else if (type === 'Bind') {
      const portal = text(bytes, 5);
      message.sql = this.statements.get(text(bytes, 6 + Buffer.byteLength(portal)));
      message.first = !this.parsed;
      this.portals.set(portal, message.sql);
      this.latestSql = message.sql;
      this.parsed = false;
    } else if (type === 'Execute') {
      message.sql = this.latestSql = this.portals.get(text(bytes, 5));
    } else if (type === 'Describe' || type === 'Close') {
      message.sql = (bytes[5] === 0x53 ? this.statements : this.portals).get(text(bytes, 6));
    } else if (type === 'Sync') {
      message.sql = this.latestSql;
      message.last = true;
      this.latestSql = undefined;
      this.parsed = false;
    }
    return message;
  }

  /** Notes that Postgres owes an answer to this message; to be called when it is passed on. */
  expectAnswer({ type, sql }: WireMessage): void {
    // After an error Postgres throws away everything up to the next Sync.
    if (this.skipsToSync && type !== 'Sync') return;
    this.skipsToSync = false;
    if (/^(Query|FunctionCall|Sync|Parse|Bind|Describe|Execute|Close)$/.test(type)) this.owed.push({ type, sql });
  }

  /** Reads a message of Postgres and settles what it answers; to be called once for each, in order. */
  readBackend({ letter, bytes }: RawMessage): WireMessage {
    const type = BACKEND_TYPES[letter] ?? `Unknown(${letter})`;
    const answered = this.owed[0];
    const message: WireMessage = { side: 'backend', connection: this.connection, type };
    if (type !== 'NotificationResponse' && type !== 'ParameterStatus') message.sql = answered?.sql;
    switch (type) {
      case 'ReadyForQuery':
        message.transactionStatus = String.fromCharCode(bytes[5] ?? 0) as 'I' | 'T' | 'E';
        if (this.opened) this.settleUpTo(/^(Query|FunctionCall|Sync)$/);
        this.opened = true;
        break;
      case 'ErrorResponse':
        message.code = field(bytes, 'C');
        if (answered && !/^(Query|FunctionCall|Sync)$/.test(answered.type)) this.skipToSync();
        break;
      case 'NoticeResponse':
        message.code = field(bytes, 'C');
        break;
      case 'CommandComplete':
        message.tag = text(bytes, 5);
        if (answered?.type === 'Execute') this.owed.shift();
        break;
      case 'EmptyQueryResponse':
      case 'PortalSuspended':
        if (answered?.type === 'Execute') this.owed.shift();
        break;
      case 'RowDescription':
      case 'NoData':
        if (answered?.type === 'Describe') this.owed.shift();
        break;
      case 'ParseComplete':
      case 'BindComplete':
      case 'CloseComplete':
        this.owed.shift();
        break;
    }
    return message;
  }

  private settleUpTo(types: RegExp): void {
    for (;;) {
      const settled = this.owed.shift();
      if (!settled || types.test(settled.type)) return;
    }
  }

  private skipToSync(): void {
    while (this.owed.length > 0 && this.owed[0]?.type !== 'Sync') this.owed.shift();
    this.skipsToSync = this.owed.length === 0;
  }
}

function text(bytes: Buffer, start: number): string {
  const end = bytes.indexOf(0, start);
  return bytes.toString('utf8', start, end < 0 ? bytes.length : end);
}

function field(bytes: Buffer, letter: string): string | undefined {
  for (let at = 5; at < bytes.length && bytes[at] !== 0; at = bytes.indexOf(0, at) + 1) {
    if (bytes[at] === letter.charCodeAt(0)) return text(bytes, at + 1);
  }
  return undefined;
}
