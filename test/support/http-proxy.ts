import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

/** A request that has arrived whole and was not passed on, or the reply to it that has not either. */
export interface HttpMessage {
  side: 'request' | 'reply';
  method: string;
  /** With its query. */
  path: string;
  headers: IncomingMessage['headers'];
  body: Buffer;
  /** Of a reply. */
  status?: number;
}

/** `cut`: it is not passed on, and the caller's connection is reset. A number: the caller is answered with that status. */
export type HttpVerdict = 'pass' | 'cut' | number;

/** Decides what becomes of a message; until it has, the message is held. */
export type HttpHook = (message: HttpMessage) => HttpVerdict | void | Promise<HttpVerdict | void>;

/** A message that is held until the test lets it go. */
export interface HttpHold {
  reached: Promise<HttpMessage>;
  release(verdict?: HttpVerdict): void;
}

/** Fits requests, or replies to them, of that method and the beginning of their path. */
export const call = {
  isMade:
    (method: string, path: string) =>
    (m: HttpMessage): boolean =>
      m.side === 'request' && m.method === method && m.path.startsWith(path),
  isAnswered:
    (method: string, path: string) =>
    (m: HttpMessage): boolean =>
      m.side === 'reply' && m.method === method && m.path.startsWith(path),
};

/**
 * Stands between the service and a provider, so that a test can act when a call has arrived and is not delivered, and when
 * it has been carried out and is not answered. Passes each message whole.
 *
 * @example
 * const proxy = await HttpProxy.start(sandbox.url);
 * const charge = proxy.hold(call.isMade('POST', '/v1/payment_intents'));
 */
export class HttpProxy {
  /** Asked about each message that no rule was made for. */
  onMessage?: HttpHook;

  private readonly rules = new Set<{ fits: (message: HttpMessage) => boolean; act: HttpHook }>();

  private constructor(
    private readonly server: Server,
    private readonly upstream: string,
  ) {
    server.on('request', (incoming, outgoing) => {
      this.serve(incoming, outgoing).catch(() => incoming.socket.resetAndDestroy());
    });
  }

  static async start(upstream: string): Promise<HttpProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new HttpProxy(server, upstream);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Gives the first message that fits that verdict. */
  once(fits: (message: HttpMessage) => boolean, verdict: HttpVerdict): Promise<HttpMessage> {
    const hold = this.hold(fits);
    hold.release(verdict);
    return hold.reached;
  }

  /** Holds the first message that fits. */
  hold(fits: (message: HttpMessage) => boolean): HttpHold {
    let release: (verdict: HttpVerdict) => void = () => undefined;
    const released = new Promise<HttpVerdict>((resolve) => (release = resolve));
    const reached = new Promise<HttpMessage>((resolve) => {
      const act: HttpHook = (message) => {
        resolve(message);
        return released;
      };
      this.rules.add({ fits, act });
    });
    return { reached, release: (verdict = 'pass') => release(verdict) };
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  private async serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const { method = '', url: path = '', headers } = incoming;
    const asked: HttpMessage = { side: 'request', method, path, headers, body: await whole(incoming) };
    if (!(await this.passes(asked, outgoing))) return;
    const reply = await this.forward(asked);
    const body = await whole(reply);
    const { statusCode: status = 0 } = reply;
    const answered: HttpMessage = { ...asked, side: 'reply', headers: reply.headers, body, status };
    if (!(await this.passes(answered, outgoing))) return;
    outgoing.writeHead(status, reply.headers).end(body);
  }

  private async passes(message: HttpMessage, outgoing: ServerResponse): Promise<boolean> {
    const rule = [...this.rules].find(({ fits }) => fits(message));
    if (rule) this.rules.delete(rule);
    const verdict = (await (rule ? rule.act : this.onMessage)?.(message)) ?? 'pass';
    if (verdict === 'cut') outgoing.socket?.resetAndDestroy();
    else if (verdict !== 'pass') outgoing.writeHead(verdict).end();
    return verdict === 'pass';
  }

  /** On a connection of its own: one that is kept could end just when it is used. */
  private forward({ method, path, headers, body }: HttpMessage): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const outgoing = httpRequest(new URL(path, this.upstream), {
        method,
        headers: { ...headers, connection: 'close' },
        agent: false,
      });
      outgoing.on('response', resolve).on('error', reject).end(body);
    });
  }
}

async function whole(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
