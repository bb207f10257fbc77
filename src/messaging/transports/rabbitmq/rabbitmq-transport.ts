import type { Consumers } from '../../consumers.js';
import type { MessagingOptions } from '../../messaging.options.js';
import { EventTransport, type OutgoingEvent } from '../event-transport.js';
import { HEADERS } from './message-headers.js';
import { Publisher } from './publisher.js';
import type { RabbitMqOptions } from './rabbitmq.options.js';
import { Subscriber } from './subscriber.js';
import { Topology } from './topology.js';

/**
 * Sends events to RabbitMQ, and lets the consumers of this process take theirs from there. Two connections: where the
 * broker slows down who publishes, acknowledgements still get through.
 */
export class RabbitMqTransport extends EventTransport {
  /** Whoever has bound a queue, in this process or another. */
  readonly hasReceivers = true;
  private topology!: Topology;
  private publisher: Publisher | undefined;
  private subscriber: Subscriber | undefined;

  constructor(
    private readonly consumers: Consumers,
    private readonly messaging: MessagingOptions,
    private readonly options: RabbitMqOptions,
  ) {
    super();
  }

  override get isReady(): boolean {
    return this.publisher?.isReady ?? false;
  }

  /** Does not wait for the broker: the service works without it, and events wait in the outbox. */
  async start(): Promise<void> {
    const { url, prefix } = this.options;
    this.topology = new Topology(prefix, this.consumers.all, this.messaging);
    this.publisher = new Publisher(url, this.topology);
    this.subscriber = new Subscriber(url, this.topology, this.publisher, this.consumers, this.messaging);
    this.publisher.start();
    this.subscriber.start();
  }

  async publish({ tenantId, envelope }: OutgoingEvent, deadline: number): Promise<void> {
    await this.publisher!.publish(
      {
        exchange: this.topology.events,
        routingKey: envelope.type,
        content: Buffer.from(JSON.stringify(envelope)),
        properties: {
          messageId: envelope.id,
          correlationId: envelope.subject,
          type: envelope.type,
          timestamp: Math.floor(Date.parse(envelope.time) / 1_000), // AMQP counts seconds
          contentType: 'application/cloudevents+json',
          headers: { [HEADERS.tenantId]: tenantId },
        },
      },
      deadline,
    );
  }

  /** Consumers first: putting a message off needs the publisher. */
  async stop(): Promise<void> {
    await this.subscriber?.stop();
    await this.publisher?.stop();
  }
}
