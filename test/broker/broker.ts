import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { describe } from '@jest/globals';
import { connect, type Channel, type ChannelModel, type GetMessage } from 'amqplib';
import { TcpProxy } from '../support/tcp-proxy.js';
import { waitFor } from '../support/wait-for.js';

const { RABBITMQ_URL: url, RABBITMQ_NODENAME: nodeName } = process.env;

/** Tests that need a broker; skipped where there is none. */
export const describeWithBroker = url ? describe : describe.skip;

/** Tests that stop the broker, for everybody on it: only where it was started for them, and its node is named. */
export const describeWithBrokerToStop = url && nodeName ? describe : describe.skip;

/** `stop_app`, `start_app` and the like. To stop it closes its connections; messages stay. */
export async function controlBroker(command: string, ...args: string[]): Promise<void> {
  await promisify(execFile)('rabbitmqctl', ['-n', nodeName!, command, ...args]);
}

/** The delays before the second and third attempt, and that a message dies of the third. */
export const QUICK = { firstDelay: 50, attempts: 3 } as const;
const DELAYS = [50, 100];

/** A part of the broker of a test's own, under a prefix that no other test uses. */
export class TestBroker {
  readonly prefix = `test-${randomBytes(5).toString('hex')}`;

  private constructor(
    readonly connection: ChannelModel,
    readonly channel: Channel,
    private readonly consumers: readonly string[],
  ) {}

  /** @param consumers those whose queues the test leaves behind */
  static async open(consumers: readonly string[] = []): Promise<TestBroker> {
    const { connection, channel } = await channelTo(url!);
    return new TestBroker(connection, channel, consumers);
  }

  /** The same, on a new connection: the broker has closed the one before. */
  async reopen(): Promise<TestBroker> {
    const { connection, channel } = await channelTo(url!);
    Object.assign(this, { connection, channel });
    return this;
  }

  /** For `TestApp` and `ServiceProcess`. */
  environment(brokerUrl = url!): Record<string, string> {
    return { EVENTS_TRANSPORT: 'rabbitmq', RABBITMQ_URL: brokerUrl, RABBITMQ_PREFIX: this.prefix };
  }

  name(rest: string): string {
    return `${this.prefix}.${rest}`;
  }

  /** A queue that gets every event from now on, in the order in which the broker took them. */
  async watch(): Promise<string> {
    const { channel } = this;
    const options = { durable: true, arguments: { 'x-queue-type': 'quorum' } };
    await channel.assertExchange(this.name('events'), 'topic', {
      durable: true,
      alternateExchange: this.name('unrouted'),
    });
    const { queue } = await channel.assertQueue(this.name('watch'), options);
    await channel.bindQueue(queue, this.name('events'), '#');
    return queue;
  }

  /** How many messages a queue has that nobody works on. */
  async depth(queue: string): Promise<number> {
    return (await this.channel.checkQueue(this.name(queue))).messageCount;
  }

  /** Takes one message from a queue, as soon as there is one. */
  async next(queue: string): Promise<GetMessage> {
    return waitFor(() => this.channel.get(this.name(queue), { noAck: true }), { description: `a message in ${queue}` });
  }

  /** Takes all that a queue has now. */
  async drain(queue: string): Promise<GetMessage[]> {
    const messages: GetMessage[] = [];
    for (;;) {
      const message = await this.channel.get(this.name(queue), { noAck: true });
      if (!message) return messages;
      messages.push(message);
    }
  }

  /** A proxy before the broker, and the URL through it. */
  static async proxy(): Promise<{ proxy: TcpProxy; proxyUrl: string }> {
    const { hostname, port } = new URL(url!);
    const proxy = await TcpProxy.start(hostname, Number(port || 5672));
    const proxyUrl = new URL(url!);
    proxyUrl.hostname = '127.0.0.1';
    proxyUrl.port = String(proxy.port);
    return { proxy, proxyUrl: proxyUrl.href };
  }

  /** Removes what the service has declared and what the test has. */
  async close(delays: readonly number[] = DELAYS): Promise<void> {
    await this.connection.close().catch(() => undefined); // a test may have broken it
    const { connection, channel } = await channelTo(url!);
    const sinks = ['unrouted', 'dead', ...delays.map((delay) => `delay.${delay}`)];
    for (const name of [...sinks, ...this.consumers, 'watch']) await channel.deleteQueue(this.name(name));
    for (const name of [...sinks, 'events']) await channel.deleteExchange(this.name(name));
    await connection.close();
  }
}

async function channelTo(brokerUrl: string): Promise<{ connection: ChannelModel; channel: Channel }> {
  const connection = await connect(brokerUrl);
  connection.on('error', () => undefined);
  const channel = await connection.createChannel();
  channel.on('error', () => undefined);
  return { connection, channel };
}
