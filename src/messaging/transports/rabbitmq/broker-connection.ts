import { Logger } from '@nestjs/common';
import { connect, type ChannelModel } from 'amqplib';

const CONNECTED_WITHIN = 5_000;
/** For what is done first on a connection. To declare a dozen queues in a cluster takes a while. */
const BEGUN_WITHIN = 15_000;
const CLOSED_WITHIN = 1_000;
/** Seconds; a peer that is silent for two of them is gone. */
const HEARTBEAT = '10';
const SHORTEST_PAUSE = 100;
const LONGEST_PAUSE = 5_000;

export interface BrokerConnectionOptions {
  readonly url: string;
  /** What the broker's operator sees. */
  readonly name: string;
  /** Opens channels on a new connection. The connection counts as there once this has succeeded. */
  readonly begin: (connection: ChannelModel) => Promise<void>;
}

/** A connection to the broker that is made again whenever it is lost, for as long as it takes. */
export class BrokerConnection {
  private readonly logger = new Logger(BrokerConnection.name);
  private model: ChannelModel | undefined;
  private blocked = false;
  private stopped = false;
  private endPause: () => void = () => undefined;

  constructor(private readonly options: BrokerConnectionOptions) {}

  /** The broker takes no messages at the moment: it is short of memory or disk. */
  get isBlocked(): boolean {
    return this.blocked;
  }

  start(): void {
    void this.keepOpen();
  }

  /** Gives up on a peer that does not answer. A closing handshake with it would wait for ever. */
  drop(reason: string): void {
    if (this.model) destroy(this.model, reason);
  }

  async stop(): Promise<void> {
    this.stopped = true;
    this.endPause();
    const { model } = this;
    if (!model) return;
    const timer = setTimeout(() => destroy(model, 'The broker did not answer to the end'), CLOSED_WITHIN);
    await model.close().catch(() => undefined);
    clearTimeout(timer);
  }

  private async keepOpen(): Promise<void> {
    for (let failures = 0; !this.stopped;) {
      try {
        const lost = await this.open();
        failures = 0;
        this.logger.log(`broker_connected: ${this.options.name}`);
        await lost.promise;
      } catch (error) {
        if (this.stopped) return;
        this.logger.warn(`broker_lost: ${this.options.name}: ${String(error)}`);
        await this.pause(failures++);
      }
    }
  }

  /** @returns what rejects when the connection is lost */
  private async open(): Promise<{ promise: Promise<never> }> {
    const url = new URL(this.options.url);
    if (!url.searchParams.has('heartbeat')) url.searchParams.set('heartbeat', HEARTBEAT);
    const model = await connect(url.href, {
      timeout: CONNECTED_WITHIN,
      noDelay: true,
      keepAlive: true,
      clientProperties: { connection_name: this.options.name },
    });
    const promise = new Promise<never>((_, reject) => {
      model.on('error', () => undefined); // 'close' follows
      model.on('close', (error) => reject(error ?? new Error('The connection was closed')));
    });
    promise.catch(() => undefined);
    this.watchAlarms(model);
    const late = setTimeout(() => destroy(model, 'The broker did not answer in time'), BEGUN_WITHIN);
    try {
      this.model = model;
      await this.options.begin(model);
      if (this.stopped) throw new Error('Stopped meanwhile');
    } catch (error) {
      destroy(model, String(error));
      throw error;
    } finally {
      clearTimeout(late);
    }
    return { promise };
  }

  private watchAlarms(model: ChannelModel): void {
    this.blocked = false;
    model.on('blocked', (reason) => {
      this.blocked = true;
      this.logger.warn(`broker_blocked: ${this.options.name}: ${reason}`);
    });
    model.on('unblocked', () => {
      this.blocked = false;
      this.logger.log(`broker_unblocked: ${this.options.name}`);
    });
  }

  /** Longer each time, and at random: all replicas have lost the broker at the same moment. */
  private async pause(failures: number): Promise<void> {
    const most = Math.min(SHORTEST_PAUSE * 2 ** failures, LONGEST_PAUSE);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, most * (0.5 + Math.random() / 2));
      this.endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** amqplib offers no way to end a connection without its peer; its socket is there, though not in the types. */
function destroy({ connection }: ChannelModel, reason: string): void {
  (connection as unknown as { stream: { destroy(error: Error): void } }).stream.destroy(new Error(reason));
}
