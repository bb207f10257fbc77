import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { json, PlainRefusal, Refusal, type Reply, type SandboxRequest } from './reply.js';
import { newId } from './stripe/ids.js';

const LARGEST_BODY = 1_000_000;
const DRAIN_MS = 3_000;
/** Long, as Stripe's: a connection that closes just when a call is sent on it looks like a lost answer. */
const KEEP_ALIVE_MS = 65_000;

/** HTTP around a function from requests to replies. */
export class SandboxServer {
  private readonly server: Server;
  private readonly stopping = new AbortController();

  constructor(
    private readonly answer: (request: SandboxRequest) => Promise<Reply>,
    private readonly failed: (error: unknown) => void,
  ) {
    this.server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (incoming, response) => {
      // A caller that goes away while it is read or answered needs nothing more.
      this.serve(incoming, response).catch(() => incoming.socket.destroy());
    });
  }

  /** @returns the port it listens on */
  async listen(port: number, host: string): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen(port, host, () => {
        this.server.off('error', reject);
        resolve();
      });
    });
    return (this.server.address() as AddressInfo).port;
  }

  /** Answers what has begun, but for what a fault delays: that is cut off. */
  async stop(): Promise<void> {
    this.stopping.abort();
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeIdleConnections();
    const cut = setTimeout(() => this.server.closeAllConnections(), DRAIN_MS);
    await closed;
    clearTimeout(cut);
  }

  private async serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const id = newId('req');
    const reply = await this.replyTo(incoming, id);
    if (reply.delayMs) await sleep(reply.delayMs, undefined, { signal: this.stopping.signal });
    if (reply.instead === 'close') incoming.socket.destroy();
    else if (reply.instead === 'reset') incoming.socket.resetAndDestroy();
    else this.send(response, reply, id);
  }

  private async replyTo(incoming: IncomingMessage, id: string): Promise<Reply> {
    const body = await readBody(incoming);
    if (!body) return new PlainRefusal(413, 'body_too_large', `The body is over ${LARGEST_BODY} bytes.`).reply;
    const [path = '', ...query] = (incoming.url ?? '').split('?');
    const { method = '', headers } = incoming;
    try {
      return await this.answer({ id, method, path, query: query.join('?'), headers, body });
    } catch (error) {
      if (error instanceof Refusal) return error.reply;
      this.failed(error);
      const message = 'The sandbox itself failed; its log says why.';
      return json(500, { error: { type: 'api_error', code: 'sandbox_failed', message } });
    }
  }

  private send(response: ServerResponse, { status, headers = {}, body }: Reply, id: string): void {
    response.writeHead(status, {
      'request-id': id,
      ...(body !== undefined && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
      ...(this.stopping.signal.aborted && { connection: 'close' }),
      ...headers,
    });
    response.end(body);
  }
}

/** @returns undefined when it is too large; it is read to its end all the same, so that the refusal arrives */
async function readBody(incoming: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming) {
    size += (chunk as Buffer).length;
    if (size <= LARGEST_BODY) chunks.push(chunk as Buffer);
  }
  return size <= LARGEST_BODY ? Buffer.concat(chunks) : undefined;
}
