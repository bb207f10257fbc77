import { Injectable, type Type } from '@nestjs/common';
import type { Transaction } from '../../src/database/transaction.js';
import type { CloudEvent } from '../../src/messaging/cloud-event.js';
import { Consumes } from '../../src/messaging/consumes.decorator.js';

/** A consumer of orders' events that does `work` and then writes an effect (`createEffectTables`). */
export function consumerOf(
  work: (event: CloudEvent, transaction: Transaction) => Promise<void> = async () => undefined,
): Type<object> {
  const apply = async (event: CloudEvent, transaction: Transaction): Promise<void> => {
    await work(event, transaction);
    await transaction.query('INSERT INTO effects (tenant_id, event_id, subject, version) VALUES ($1, $2, $3, $4)', [
      transaction.tenantId,
      event.id,
      event.subject,
      event.aggregateversion,
    ]);
  };

  @Injectable()
  class EffectConsumer {
    @Consumes('order.created', { consumer: 'test.created' })
    onCreated(event: CloudEvent, transaction: Transaction): Promise<void> {
      return apply(event, transaction);
    }

    @Consumes('order.updated', { consumer: 'test.updated' })
    onUpdated(event: CloudEvent, transaction: Transaction): Promise<void> {
      return apply(event, transaction);
    }
  }
  return EffectConsumer;
}
