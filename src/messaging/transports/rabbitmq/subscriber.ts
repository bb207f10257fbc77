import { setTimeout as sleep } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import type { Channel, ChannelModel, ConsumeMessage, Options } from 'amqplib';
import { tell } from '../../../config/telemetry.js';
import { type Consumer, type Consumers, MalformedMessageError } from '../../consumers.js';
import type { MessagingOptions } from '../../messaging.options.js';
import { isPassing } from '../is-passing.js';
import { BrokerConnection } from './broker-connection.js';
import { HEADERS, type MessageHeaders } from './message-headers.js';
import type { Publication, Publisher } from './publisher.js';
import { Slots } from './slots.js';
import type { Topology } from './topology.js';

/** Messages worked on at a time: each takes a connection from the pool, and requests need some, too. */
const CONCURRENCY = 4;
const LONGEST_REASON = 500;

/** What a copy takes over; the broker judges the others (expiration, user id) anew. */
type KeptProperties = Pick<Options.Publish, 'contentType' | 'messageId' | 'correlationId' | 'type' | 'timestamp'>;

/** A message in the hands of a consumer. */
interface Delivery {
  readonly channel: Channel;
  readonly consumer: Consumer;
  readonly message: ConsumeMessage;
}

/**
 * Lets the consumers of this process work off their queues. A message is acknowledged after the COMMIT of its effect, or
 * once the broker has confirmed a copy of it elsewhere: whoever dies in between leaves it to come again, and the inbox
 * knows it then.
 */
export class Subscriber {
  private readonly logger = new Logger(Subscriber.name);
  private readonly connection: BrokerConnection;
  private readonly working = new Set<Promise<void>>();
  /** Of all consumers together. */
  private readonly slots = new Slots(CONCURRENCY);
  private readonly stopping = new AbortController();
  private channel: Channel | undefined;
  private tags: string[] = [];

  constructor(
    url: string,
    private readonly topology: Topology,
    private readonly publisher: Publisher,
    private readonly consumers: Consumers,
    private readonly options: Pick<MessagingOptions, 'firstDelay' | 'attempts'>,
  ) {
    this.connection = new BrokerConnection({ url, name: 'subscriber', begin: (model) => this.begin(model) });
  }

  start(): void {
    if (this.consumers.all.length > 0) this.connection.start();
  }

  /** Takes no more messages, finishes those it has, then goes. What could not be finished comes again elsewhere. */
  async stop(): Promise<void> {
    this.stopping.abort();
    await withinASecond(this.cancel());
    await Promise.all(this.working);
    // Closing the connection alone could overtake the last acknowledgements.
    await withinASecond(this.channel?.close());
    await this.connection.stop();
  }

  private async begin(model: ChannelModel): Promise<void> {
    const channel = await model.createChannel();
    channel.on('error', (error) => this.logger.error(`channel_failed: ${String(error)}`)); // 'close' follows
    channel.on('close', () => {
      this.channel = undefined;
      this.connection.drop('The channel was closed');
    });
    await this.topology.declare(channel);
    await channel.prefetch(CONCURRENCY);
    this.channel = channel;
    const consumes = this.consumers.all.map((consumer) =>
      channel.consume(this.topology.queueOf(consumer.consumer), (message) => this.take(channel, consumer, message)),
    );
    this.tags = (await Promise.all(consumes)).map(({ consumerTag }) => consumerTag);
  }

  private async cancel(): Promise<void> {
    const { channel } = this;
    if (channel) await Promise.all(this.tags.map((tag) => channel.cancel(tag))).catch(() => undefined);
  }

  private take(channel: Channel, consumer: Consumer, message: ConsumeMessage | null): void {
    if (!message) {
      this.connection.drop(`The queue of ${consumer.consumer} was deleted`); // and is declared again
      return;
    }
    const work = this.work({ channel, consumer, message })
      .catch((error: unknown) => this.logger.warn(`message_left: ${consumer.consumer}: ${String(error)}`))
      .finally(() => this.working.delete(work));
    this.working.add(work);
  }

  private async work(delivery: Delivery): Promise<void> {
    const { channel, consumer, message } = delivery;
    try {
      const tenantId = headersOf(message)[HEADERS.tenantId];
      await this.slots.run(() => this.consumers.apply(consumer, tenantId, message.content));
    } catch (error) {
      await this.putOff(delivery, error);
    }
    channel.ack(message);
  }

  /** Comes back when a copy of the message is safe elsewhere. */
  private async putOff(delivery: Delivery, error: unknown): Promise<void> {
    const { consumer, message } = delivery;
    const attempts = Number(headersOf(message)[HEADERS.attempts] ?? 0);
    if (isPassing(error)) return this.putBack(delivery, attempts, error);
    const failed = attempts + 1;
    this.logger.warn(`message_failed: ${consumer.consumer}: ${message.properties.messageId}: ${String(error)}`);
    const isLast = error instanceof MalformedMessageError || failed >= this.options.attempts;
    const exchange = isLast ? this.topology.dead : this.topology.delayAfter(failed);
    await this.copyTo(exchange, delivery, {
      [HEADERS.attempts]: failed,
      [HEADERS.consumer]: consumer.consumer,
      [HEADERS.reason]: String(error).slice(0, LONGEST_REASON),
    });
    if (!isLast) return;
    tell('message-dead', { consumer: consumer.consumer });
    this.logger.error(`message_dead: ${consumer.consumer}: ${message.properties.messageId}`);
  }

  /**
   * The failure says nothing about the message: no attempt is counted. It is held for a while first, since the next one
   * would find the database away as well, and then goes to the end of its queue, where another process may take it.
   */
  private async putBack(delivery: Delivery, attempts: number, error: unknown): Promise<void> {
    this.logger.warn(`consumer_waits: ${delivery.consumer.consumer}: ${String(error)}`);
    await this.pause();
    await this.copyTo('', delivery, { [HEADERS.attempts]: attempts });
  }

  /** Tries until the broker has confirmed it. Nothing is lost meanwhile: the original is not acknowledged. */
  private async copyTo(exchange: string, { channel, consumer, message }: Delivery, headers: MessageHeaders) {
    const { contentType, messageId, correlationId, type, timestamp } = message.properties as KeptProperties;
    const publication: Publication = {
      exchange,
      routingKey: this.topology.queueOf(consumer.consumer),
      content: message.content,
      properties: {
        ...{ contentType, messageId, correlationId, type, timestamp },
        headers: { ...ownHeadersOf(message), ...headers },
      },
    };
    for (;;) {
      if (channel !== this.channel) throw new Error('The connection was lost');
      try {
        return await this.publisher.publish(publication);
      } catch (error) {
        this.logger.warn(`message_waits: ${consumer.consumer}: ${String(error)}`);
        await this.pause();
      }
    }
  }

  /** @throws Error when the service stops: the message is left to others */
  private async pause(): Promise<void> {
    await sleep(this.options.firstDelay, undefined, { signal: this.stopping.signal });
  }
}

/** For what a vanished broker would never answer. */
async function withinASecond(closing: Promise<unknown> | undefined): Promise<void> {
  await Promise.race([closing?.catch(() => undefined), sleep(1_000)]);
}

function headersOf({ properties }: ConsumeMessage): Record<string, unknown> {
  return properties.headers ?? {};
}

/** Those of the message, without what the broker wrote, and without what would make the broker send copies elsewhere. */
function ownHeadersOf(message: ConsumeMessage): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headersOf(message)).filter(([name]) => !/^(x-.*|b?cc)$/i.test(name)));
}
