/** One answer as it came over the wire; informational ones are left out. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

interface Found {
  readonly body: Buffer;
  /** As sent, chunks and all. */
  readonly length: number;
}

/** Reads the answers of one connection, in the order in which they come, without a client's kindness. */
export class AnswerReader {
  readonly answers: RawAnswer[] = [];
  private buffered: Buffer = Buffer.alloc(0);

  /** @param methods of the requests in the order of sending: an answer to HEAD has no body */
  constructor(private readonly methods: readonly string[]) {}

  /** @throws Error when what comes is not HTTP */
  push(chunk: Buffer): void {
    this.buffered = this.buffered.length === 0 ? chunk : Buffer.concat([this.buffered, chunk]);
    while (this.take());
  }

  /** No more will come: an answer whose end is that of the connection is whole now. */
  end(): void {
    this.take(true);
  }

  private take(ended = false): boolean {
    const end = this.buffered.indexOf('\r\n\r\n');
    if (end === -1) {
      if (this.buffered.length > 5 && !this.buffered.subarray(0, 5).equals(Buffer.from('HTTP/'))) throw this.notHttp();
      return false;
    }
    const [statusLine = '', ...lines] = this.buffered.subarray(0, end).toString('latin1').split('\r\n');
    const status = Number(/^HTTP\/1\.1 ([1-5]\d\d)( |$)/.exec(statusLine)?.[1]);
    if (!status) throw this.notHttp();
    const headers = Object.fromEntries(lines.map(parseLine));
    if (status < 200) {
      this.buffered = this.buffered.subarray(end + 4);
      return true;
    }
    const bodiless = this.methods[this.answers.length] === 'HEAD' || status === 204 || status === 304;
    // Of a request that could not be read the service need not know that it was HEAD.
    const unread = status >= 400 && headers.connection === 'close';
    let found = bodiless && !unread ? { body: Buffer.alloc(0), length: 0 } : this.bodyFrom(end + 4, headers, ended);
    if (!found && bodiless && ended) found = { body: Buffer.alloc(0), length: 0 };
    if (!found) return false;
    this.answers.push({ status, headers, body: found.body });
    this.buffered = this.buffered.subarray(end + 4 + found.length);
    return true;
  }

  /** Undefined while there is more to come. */
  private bodyFrom(start: number, headers: Record<string, string>, ended: boolean): Found | undefined {
    if (headers['transfer-encoding'] === 'chunked') return this.chunksFrom(start);
    const announced = headers['content-length'];
    if (announced === undefined && !ended) return undefined;
    const length = Number(announced ?? this.buffered.length - start);
    if (this.buffered.length < start + length) return undefined;
    return { body: this.buffered.subarray(start, start + length), length };
  }

  private chunksFrom(start: number): Found | undefined {
    const chunks: Buffer[] = [];
    for (let at = start; ;) {
      const lineEnd = this.buffered.indexOf('\r\n', at);
      if (lineEnd === -1) return undefined;
      const size = parseInt(this.buffered.subarray(at, lineEnd).toString('latin1'), 16);
      const next = lineEnd + 2 + size + 2;
      if (Number.isNaN(size)) throw this.notHttp();
      if (this.buffered.length < next) return undefined;
      chunks.push(this.buffered.subarray(lineEnd + 2, lineEnd + 2 + size));
      at = next;
      if (size === 0) return { body: Buffer.concat(chunks), length: at - start };
    }
  }

  private notHttp(): Error {
    return new Error(
      `what came back is not HTTP: ${JSON.stringify(this.buffered.subarray(0, 200).toString('latin1'))}`,
    );
  }
}

function parseLine(line: string): [string, string] {
  const colon = line.indexOf(':');
  return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
}
