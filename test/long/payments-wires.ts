import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProviderOperation } from './payments-plan.js';
import { Random } from './random.js';

const CREATES: Readonly<Record<string, ProviderOperation>> = {
  '/v1/payment_intents': 'payment_intents.create',
  '/v1/refunds': 'refunds.create',
  '/bank/transfers': 'bank_transfers.create',
};

/**
 * The network between the service and its provider. Towards the provider it can hold a call, which then lands although
 * its caller has given up waiting, or has ended. From the provider it brings each webhook to one of the processes,
 * sometimes to both at once, sometimes to none.
 */
export class Wires {
  readonly webhookStatuses = new Map<number, number>();
  held = 0;
  private readonly holds: { readonly operation: ProviderOperation; readonly ms: number }[] = [];
  private readonly server: Server;
  private random = new Random(0, 1);
  private pending = 0;
  private lost = 0;

  /** @param processes where the service is now, process by process */
  private constructor(
    private readonly provider: string,
    private readonly processes: () => readonly string[],
  ) {
    this.server = createServer((incoming, outgoing) => {
      void this.serve(incoming, outgoing).catch(() => outgoing.socket?.destroy());
    });
  }

  static async start(provider: string, processes: () => readonly string[]): Promise<Wires> {
    const wires = new Wires(provider, processes);
    await new Promise<void>((resolve) => wires.server.listen(0, '127.0.0.1', resolve));
    return wires;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** @param lost the share of webhooks that do not arrive and are said to have */
  begin({ seed, lost }: { seed: number; lost: number }): void {
    this.random = new Random(seed, 1);
    this.lost = lost;
    this.held = 0;
    this.webhookStatuses.clear();
  }

  /** Lets the next call of that operation land so much later. */
  hold(operation: ProviderOperation, ms: number): void {
    this.holds.push({ operation, ms });
  }

  /** From now on nothing more is held or lost. */
  mend(): void {
    this.holds.length = 0;
    this.lost = 0;
  }

  /** Whether everything that was held has landed. */
  get quiet(): boolean {
    return this.pending === 0;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const path = incoming.url!;
    if (path === '/v1/webhooks/stripe') return this.deliver(incoming, body, outgoing);
    const operation = incoming.method === 'POST' ? CREATES[path] : undefined;
    const hold = this.holds.find((one) => one.operation === operation);
    if (hold) {
      this.holds.splice(this.holds.indexOf(hold), 1);
      this.held += 1;
      this.pending += 1;
      await sleep(hold.ms);
    }
    try {
      const answer = await forward(this.provider, incoming, body);
      outgoing.writeHead(answer.status, answer.headers).end(answer.body);
    } finally {
      if (hold) this.pending -= 1;
    }
  }

  private async deliver(incoming: IncomingMessage, body: Buffer, outgoing: ServerResponse): Promise<void> {
    const lost = this.random.chance(this.lost);
    const both = this.random.chance(0.15);
    const targets = [...this.processes()];
    const chosen = both ? targets : [this.random.pick(targets)];
    const statuses = lost
      ? [204]
      : await Promise.all(chosen.map((url) => forward(url, incoming, body).then(({ status }) => status, () => 502))); // prettier-ignore
    for (const status of statuses) this.webhookStatuses.set(status, (this.webhookStatuses.get(status) ?? 0) + 1);
    outgoing.writeHead(Math.max(...statuses)).end();
  }
}

interface Forwarded {
  readonly status: number;
  readonly headers: Record<string, string | string[]>;
  readonly body: Buffer;
}

function forward(base: string, { method, url, headers }: IncomingMessage, body: Buffer): Promise<Forwarded> {
  return new Promise((resolve, reject) => {
    const { host: _host, connection: _connection, 'transfer-encoding': _encoding, ...passed } = headers;
    const sent = httpRequest(new URL(url!, base), {
      method,
      agent: false,
      headers: { ...passed, 'content-length': body.length },
    });
    sent.on('error', reject);
    sent.on('response', (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('error', reject);
      answer.on('end', () => {
        const kept = Object.entries(answer.headers).filter(([name]) => !/^(connection|keep-alive)$/.test(name));
        const headers = Object.fromEntries(kept) as Record<string, string | string[]>;
        resolve({ status: answer.statusCode!, headers, body: Buffer.concat(chunks) });
      });
    });
    sent.end(body);
  });
}
