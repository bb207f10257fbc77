import {
  createServer,
  type IncomingMessage,
  request as httpRequest,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';

interface Strike {
  /** Such as `POST /v1/orders`. */
  readonly request: string;
  readonly act: () => Promise<void>;
  readonly struck: () => void;
  readonly failed: (error: unknown) => void;
}

/**
 * The network between the clients and one server: the same address however often the server behind it is started again,
 * and the place where answers get lost.
 */
export class FrontDoor {
  /** Who stands behind it at the moment; undefined: connections break. */
  upstream: string | undefined;
  private strike: Strike | undefined;

  private constructor(private readonly server: Server) {
    server.on('request', (incoming, outgoing) => {
      this.serve(incoming, outgoing).catch(() => void incoming.socket.resetAndDestroy());
    });
  }

  static async open(): Promise<FrontDoor> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new FrontDoor(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /**
   * Lets the next such request through, and when the first byte of its answer arrives, which a server sends after its
   * COMMIT, does `act`, passes nothing on, and breaks the client's connection.
   *
   * @returns resolves when that has happened
   */
  atReplyTo(request: string, act: () => Promise<void>): Promise<void> {
    return new Promise((struck, failed) => (this.strike = { request, act, struck, failed }));
  }

  /** Loses the answer to the next such request on its way. */
  loseReplyTo(request: string): Promise<void> {
    return this.atReplyTo(request, async () => undefined);
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  private async serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const strike = this.takeStrike(`${incoming.method} ${incoming.url}`);
    const reply = await this.passOn(incoming);
    if (!strike) {
      outgoing.writeHead(reply.statusCode ?? 502, { ...reply.headers, connection: 'close' });
      reply.on('error', () => outgoing.destroy()).pipe(outgoing);
      return;
    }
    reply.on('error', () => undefined).destroy();
    await strike.act().then(strike.struck, strike.failed);
    incoming.socket.resetAndDestroy();
  }

  private takeStrike(request: string): Strike | undefined {
    const { strike } = this;
    if (strike?.request !== request) return undefined;
    this.strike = undefined;
    return strike;
  }

  private passOn(incoming: IncomingMessage): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      if (this.upstream === undefined) throw new Error('Nobody is there');
      const { method, headers } = incoming;
      const outgoing = httpRequest(new URL(incoming.url ?? '/', this.upstream), {
        method,
        headers: { ...headers, connection: 'close' },
        agent: false, // a connection that is kept could end just when it is used
      });
      outgoing.on('response', resolve).on('error', reject);
      incoming.on('error', reject).pipe(outgoing);
    });
  }
}
