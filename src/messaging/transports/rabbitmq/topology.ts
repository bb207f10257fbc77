import type { Channel } from 'amqplib';
import type { MessagingOptions } from '../../messaging.options.js';
import type { Consumer } from '../../consumers.js';

const LONGEST_DELAY = 300_000;
/** Messages kept of those that nobody has asked for; the oldest go first. The outbox has them all. */
const MOST_UNROUTED = 100_000;
/** Deliveries without an answer after which a message is held to be what its consumers die of. */
const MOST_DELIVERIES = 50;

/**
 * Every exchange and queue, all durable, and how they hang together:
 *
 * ```
 * P.events (topic) -- event type --> P.<consumer>         one quorum queue for each consumer
 *        \-- nobody's type --> P.unrouted (fanout) --> P.unrouted
 * P.delay.<ms> (fanout) --> P.delay.<ms> -- after <ms> --> the queue that the routing key names
 * P.dead (fanout) --> P.dead
 * ```
 */
export class Topology {
  readonly events: string;
  readonly dead: string;
  private readonly unrouted: string;
  /** Milliseconds, growing. */
  private readonly delays: readonly number[];

  constructor(
    private readonly prefix: string,
    private readonly consumers: readonly Consumer[],
    { firstDelay, attempts }: Pick<MessagingOptions, 'firstDelay' | 'attempts'>,
  ) {
    this.events = `${prefix}.events`;
    this.dead = `${prefix}.dead`;
    this.unrouted = `${prefix}.unrouted`;
    const all = Array.from({ length: attempts - 1 }, (_, n) => Math.min(firstDelay * 2 ** n, LONGEST_DELAY));
    this.delays = [...new Set(all)];
    const taken = consumers.find(({ consumer }) => /^(dead|unrouted|delay\..*)$/.test(consumer));
    if (taken) throw new Error(`A consumer cannot be called ${taken.consumer}: a queue of that name is there already`);
  }

  queueOf(consumer: string): string {
    return `${this.prefix}.${consumer}`;
  }

  /** The exchange behind which a message waits before it goes on to the queue in its routing key. */
  delayAfter(attempts: number): string {
    return this.delayName(this.delays[Math.min(attempts, this.delays.length) - 1] ?? 0);
  }

  /**
   * Repeats of it change nothing.
   *
   * @throws Error when something of that name is there with other arguments
   */
  async declare(channel: Channel): Promise<void> {
    await this.declareSink(channel, this.unrouted, { 'x-max-length': MOST_UNROUTED, 'x-overflow': 'drop-head' });
    await this.declareSink(channel, this.dead, {});
    for (const delay of this.delays) await this.declareDelay(channel, delay);
    await channel.assertExchange(this.events, 'topic', { durable: true, alternateExchange: this.unrouted });
    for (const { consumer, type } of this.consumers) {
      await channel.assertQueue(this.queueOf(consumer), quorum({ ...deadLetterTo(this.dead), ...MORTAL }));
      await channel.bindQueue(this.queueOf(consumer), this.events, type);
    }
  }

  private async declareDelay(channel: Channel, delay: number): Promise<void> {
    // To the default exchange and under the routing key that the message came with: the name of the consumer's queue.
    await this.declareSink(channel, this.delayName(delay), { 'x-message-ttl': delay, ...deadLetterTo('') });
  }

  /** A queue that takes all of an exchange of its own. */
  private async declareSink(channel: Channel, name: string, args: Record<string, unknown>): Promise<void> {
    await channel.assertQueue(name, quorum(args));
    await channel.assertExchange(name, 'fanout', { durable: true });
    await channel.bindQueue(name, name, '');
  }

  private delayName(delay: number): string {
    return `${this.prefix}.delay.${delay}`;
  }
}

const MORTAL = { 'x-delivery-limit': MOST_DELIVERIES };

/** The default strategy would lose what is under way between the two queues when a node fails; this one needs the other overflow. */
function deadLetterTo(exchange: string): Record<string, unknown> {
  return {
    'x-dead-letter-exchange': exchange,
    'x-dead-letter-strategy': 'at-least-once',
    'x-overflow': 'reject-publish',
  };
}

function quorum(args: Record<string, unknown>) {
  return { durable: true, arguments: { 'x-queue-type': 'quorum', ...args } };
}
