import { Logger } from '@nestjs/common';
import type { ChannelModel, ConfirmChannel, Options } from 'amqplib';
import { EventRefusedError, TransportUnavailableError } from '../event-transport.js';
import { BrokerConnection } from './broker-connection.js';
import type { Topology } from './topology.js';

/** After which a broker that has not confirmed is held to be gone: blackholed connections close by themselves only much later. */
const CONFIRMED_WITHIN = 5_000;
const LONGEST_TIMER = 2 ** 31 - 1;

/** Tells a returned message from another publication of the same one. */
const PUBLICATION = 'publication';

/** A message and where it goes. */
export interface Publication {
  /** Empty: the default exchange, whose routing keys are the names of queues. */
  readonly exchange: string;
  readonly routingKey: string;
  readonly content: Buffer;
  readonly properties: Omit<Options.Publish, 'headers'> & { readonly headers: Readonly<Record<string, unknown>> };
}

/** Hands messages to the broker, and knows of each what has become of it. */
export class Publisher {
  private readonly logger = new Logger(Publisher.name);
  private readonly connection: BrokerConnection;
  private channel: ConfirmChannel | undefined;
  private published = 0;
  /** Publications that came back because no queue wanted them; their confirms are on the way. */
  private readonly returned = new Set<number>();

  constructor(
    url: string,
    private readonly topology: Topology,
  ) {
    this.connection = new BrokerConnection({ url, name: 'publisher', begin: (model) => this.begin(model) });
  }

  get isReady(): boolean {
    return this.channel !== undefined && !this.connection.isBlocked;
  }

  start(): void {
    this.connection.start();
  }

  async stop(): Promise<void> {
    await this.connection.stop();
  }

  /**
   * Resolves when the message is in its queues for good.
   *
   * @param deadline {@link performance.now}
   * @throws EventRefusedError when the broker refuses this message or has no queue for it, TransportUnavailableError
   */
  async publish({ exchange, routingKey, content, properties }: Publication, deadline = Infinity): Promise<void> {
    const { channel } = this;
    if (!channel || !this.isReady) throw new TransportUnavailableError('The broker is not there, or takes nothing');
    const number = ++this.published;
    const { promise, resolve, reject } = withResolvers();
    const late = setTimeout(
      () => reject(new TransportUnavailableError('The broker has not confirmed in time')),
      Math.min(deadline - performance.now(), LONGEST_TIMER),
    );
    // Whoever waits may have less time than this: the connection is given up all the same, and then all confirms fail.
    const gone = setTimeout(() => this.connection.drop('The broker has not confirmed in time'), CONFIRMED_WITHIN);
    try {
      channel.publish(
        exchange,
        routingKey,
        content,
        { ...properties, headers: { ...properties.headers, [PUBLICATION]: number }, persistent: true, mandatory: true },
        (error: Error | null) => {
          clearTimeout(gone);
          const failure = this.failureOf(number, error);
          if (failure) reject(failure);
          else resolve();
        },
      );
    } catch (error) {
      clearTimeout(gone);
      reject(new TransportUnavailableError(String(error), { cause: error })); // the channel closed a moment ago
    }
    await promise.finally(() => clearTimeout(late));
  }

  private async begin(model: ChannelModel): Promise<void> {
    const channel = await model.createConfirmChannel();
    channel.on('error', (error) => this.logger.error(`channel_failed: ${String(error)}`)); // 'close' follows
    channel.on('return', ({ properties }) => this.returned.add(Number(properties.headers?.[PUBLICATION])));
    channel.on('close', () => {
      this.channel = undefined;
      this.returned.clear();
      this.connection.drop('The channel was closed'); // a new connection brings a new one
    });
    await this.topology.declare(channel);
    this.channel = channel;
  }

  /** A message that no queue wants is returned *and then acknowledged*. */
  private failureOf(number: number, error: Error | null): Error | undefined {
    const isReturned = this.returned.delete(number);
    if (error) {
      return error.message === 'message nacked'
        ? new EventRefusedError('The broker has refused the message')
        : new TransportUnavailableError('The connection was lost before the broker had confirmed');
    }
    return isReturned ? new EventRefusedError('No queue takes the message') : undefined;
  }
}

function withResolvers() {
  let resolve!: () => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  promise.catch(() => undefined); // it may have an end before anybody waits for it
  return { promise, resolve, reject };
}
