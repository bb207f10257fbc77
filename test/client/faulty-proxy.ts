import {
  Agent,
  createServer,
  type IncomingMessage,
  request as httpRequest,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../long/random.js';

const FAULTS = [
  'reset',
  'lose-request',
  'lose-answer',
  'cut-answer',
  'late-request',
  'late-answer',
  'twice-at-once',
  'twice-later',
  'page',
  'page-instead',
] as const;
type Fault = (typeof FAULTS)[number];

interface Arrived {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

interface Reply {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/**
 * Stands between a client and the service and lets go wrong what goes wrong between machines: requests and answers that
 * are lost, cut, late or come twice, and pages of somebody else's.
 */
export class FaultyProxy {
  /** How often each thing happened. */
  readonly happened: Partial<Record<Fault | 'none', number>> = {};
  /** Told of each request that has arrived whole. */
  onArrival: () => void = () => undefined;
  private readonly agent = new Agent({ keepAlive: true, maxSockets: 60 });
  private readonly underway = new Set<Promise<unknown>>();
  private readonly server: Server;

  private constructor(
    private readonly upstream: string,
    private readonly random: Random,
    /** Of how many requests one goes wrong. */
    private readonly oneIn: number,
    /** Milliseconds: what is late is later than a client waits. */
    private readonly lateMs: number,
  ) {
    this.server = createServer((request, response) => {
      this.follow(this.serve(request, response).catch(() => void request.socket.destroy()));
    });
  }

  static async start(upstream: string, random: Random, { oneIn = 2, lateMs = 1_500 } = {}): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(upstream, random, oneIn, lateMs);
    await new Promise<void>((resolve) => proxy.server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Waits until nothing is on its way any more, what was to come late or twice included. */
  async settled(): Promise<void> {
    while (this.underway.size > 0) await Promise.allSettled([...this.underway]);
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
    await this.settled();
    this.agent.destroy();
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    this.onArrival();
    const { method = '', url = '', headers } = request;
    const arrived = { method, url, headers, body: Buffer.concat(chunks) };
    const fault = this.random.chance(1 / this.oneIn) ? this.random.pick(FAULTS) : undefined;
    this.happened[fault ?? 'none'] = (this.happened[fault ?? 'none'] ?? 0) + 1;
    const reset = (): void => void request.socket.resetAndDestroy();
    const later = (): Promise<void> => sleep(this.random.between(0, this.lateMs * 2));

    switch (fault) {
      case 'reset':
      case 'lose-request':
        return fault === 'reset' ? reset() : void request.socket.destroy();
      case 'lose-answer':
        await this.pass(arrived);
        return reset();
      case 'cut-answer': {
        const { status, headers: sent, body } = await this.pass(arrived);
        response.writeHead(status, sent);
        response.write(body.subarray(0, this.random.between(0, Math.max(0, body.length - 1))), reset);
        return;
      }
      case 'late-request':
        await later();
        return reply(response, await this.pass(arrived));
      case 'late-answer': {
        const answer = await this.pass(arrived);
        await later();
        return reply(response, answer);
      }
      case 'twice-at-once':
        return reply(response, await Promise.race([this.pass(arrived), this.pass(arrived)]));
      case 'twice-later':
        this.follow(later().then(() => this.pass(arrived)));
        return reply(response, await this.pass(arrived));
      case 'page':
        await this.pass(arrived);
        return void response.writeHead(502, { 'Content-Type': 'text/html' }).end('<h1>Bad gateway</h1>');
      case 'page-instead':
        return void response.writeHead(200, { 'Content-Type': 'text/html' }).end('<h1>Welcome to our network</h1>');
      default:
        return reply(response, await this.pass(arrived));
    }
  }

  /** Sends it on, whether or not the client is still there. */
  private pass({ method, url, headers, body }: Arrived): Promise<Reply> {
    const passed = new Promise<Reply>((resolve, reject) => {
      const outgoing = httpRequest(new URL(url, this.upstream), { method, headers, agent: this.agent }, (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          resolve({ status: incoming.statusCode!, headers: incoming.headers, body: Buffer.concat(chunks) });
        });
      });
      outgoing.on('error', reject);
      outgoing.end(body);
    });
    this.follow(passed);
    return passed;
  }

  private follow(work: Promise<unknown>): void {
    const followed = work.catch(() => undefined).finally(() => this.underway.delete(followed));
    this.underway.add(followed);
  }
}

function reply(response: ServerResponse, { status, headers, body }: Reply): void {
  response.writeHead(status, headers).end(body);
}
