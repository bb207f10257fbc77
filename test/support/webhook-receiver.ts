import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A delivery as it arrived. */
export interface Delivery {
  readonly body: string;
  readonly signature: string;
  readonly at: number;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- events carry objects of every shape
  readonly event: any;
}

/** Somebody whom webhooks are sent to, and who answers them as the test says. */
export class WebhookReceiver {
  readonly deliveries: Delivery[] = [];
  /** What a delivery is answered; undefined: nothing, the connection is closed. */
  answer: (delivery: Delivery) => number | undefined = () => 200;

  private constructor(
    private readonly server: Server,
    readonly url: string,
  ) {}

  static async start(): Promise<WebhookReceiver> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const receiver = new WebhookReceiver(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`);
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        const signature = String(request.headers['stripe-signature']);
        const delivery = { body, signature, at: performance.now(), event: JSON.parse(body) as unknown };
        receiver.deliveries.push(delivery);
        const status = receiver.answer(delivery);
        if (status === undefined) request.socket.destroy();
        else response.writeHead(status).end();
      });
    });
    return receiver;
  }

  /** The events that arrived, oldest first, as often as they did. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- see above
  get events(): any[] {
    return this.deliveries.map(({ event }) => event);
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
