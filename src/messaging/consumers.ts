import { Injectable, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { tell } from '../config/telemetry.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { UUID } from '../http/uuid-param.pipe.js';
import type { CloudEvent } from './cloud-event.js';
import { CONSUMES, type ConsumesOptions, type EventHandler } from './consumes.decorator.js';
import { Inbox } from './inbox.js';

/** A message that no consumer can ever make sense of. */
export class MalformedMessageError extends Error {
  override readonly name = 'MalformedMessageError';
}

/** A consumer of this process. */
export interface Consumer extends ConsumesOptions {
  readonly handle: EventHandler;
}

/** The methods under `@Consumes()`, and how a message is applied by one of them. */
@Injectable()
export class Consumers implements OnModuleInit {
  private readonly found = new Map<string, Consumer>();

  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly unitOfWork: UnitOfWork,
    private readonly inbox: Inbox,
  ) {}

  /** @throws Error when two consumers have one name: each would take the other's messages for its own */
  onModuleInit(): void {
    // A provider may be there under several tokens.
    for (const instance of new Set(this.discovery.getProviders().map((provider) => provider.instance as unknown))) {
      if (typeof instance !== 'object' || instance === null) continue;
      const prototype = Object.getPrototypeOf(instance) as Record<string, EventHandler> | null;
      for (const name of prototype ? this.scanner.getAllMethodNames(prototype) : []) {
        const method = prototype![name]!;
        const options = Reflect.getMetadata(CONSUMES, method) as ConsumesOptions | undefined;
        if (!options) continue;
        if (this.found.has(options.consumer)) throw new Error(`Two consumers are called ${options.consumer}`);
        tell('consumer', { consumer: options.consumer });
        this.found.set(options.consumer, { ...options, handle: method.bind<EventHandler>(instance) });
      }
    }
  }

  get all(): readonly Consumer[] {
    return [...this.found.values()];
  }

  /**
   * Applies a message once, and comes back when that is committed: acknowledge it then.
   *
   * @param bytes a CloudEvent in JSON; a repeat has the same
   * @throws MalformedMessageError, or what the consumer threw
   */
  async apply(consumer: Consumer, tenantId: unknown, bytes: Buffer): Promise<void> {
    try {
      await this.applyOnce(consumer, tenantId, bytes);
    } catch (error) {
      tell('message', {
        consumer: consumer.consumer,
        outcome: error instanceof MalformedMessageError ? 'malformed' : 'failed',
      });
      throw error;
    }
  }

  private async applyOnce({ consumer, handle }: Consumer, tenantId: unknown, bytes: Buffer): Promise<void> {
    if (typeof tenantId !== 'string' || !UUID.test(tenantId)) throw new MalformedMessageError('It names no tenant');
    const event = parse(bytes);
    const isNew = await this.unitOfWork.run(tenantId, async (transaction) => {
      const isNew = await this.inbox.accept(transaction, { consumer, messageId: event.id, bytes });
      if (isNew) await handle(event, transaction);
      return isNew;
    });
    tell('message', { consumer, outcome: isNew ? 'applied' : 'repeated' });
  }
}

function parse(bytes: Buffer): CloudEvent {
  let event: Partial<CloudEvent> | null;
  try {
    event = JSON.parse(bytes.toString()) as Partial<CloudEvent> | null;
  } catch (error) {
    throw new MalformedMessageError('It is not JSON', { cause: error });
  }
  const isEvent =
    event?.specversion === '1.0' &&
    [event.id, event.type, event.subject].every((value) => typeof value === 'string' && value !== '') &&
    event.data !== undefined;
  if (!isEvent) throw new MalformedMessageError('It is no CloudEvent 1.0 with data');
  return event as CloudEvent;
}
