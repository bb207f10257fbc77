import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import type { Transaction } from '../database/transaction.js';

/** Something that happened to an aggregate. */
export interface DomainEvent {
  readonly aggregateType: string;
  /** UUID. */
  readonly aggregateId: string;
  /** The aggregate's version after the change, taken from its locked row: the order of its events. */
  readonly aggregateVersion: number;
  /** Such as `order.created`. */
  readonly type: string;
  /** The resource as the API shows it at that version. */
  readonly data: unknown;
}

/**
 * Writes events in the transaction of the change that they tell of (transactional outbox): there is no change without
 * its event and no event without its change. A unique constraint allows one event per change of an aggregate.
 */
@Injectable()
export class Outbox {
  private committed: () => void = () => undefined;

  /** Calls `listener` whenever a transaction of this process has committed events. */
  onCommitted(listener: () => void): void {
    this.committed = listener;
  }

  /** Nothing waits for this write: it travels with COMMIT. A refusal that undoes the change undoes it, too. */
  append(transaction: Transaction, event: DomainEvent): void {
    transaction.onCommitted(this.committed);
    transaction.closeWith({
      text: `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
             VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      values: [
        transaction.tenantId,
        uuidv7(),
        event.aggregateType,
        event.aggregateId,
        event.aggregateVersion,
        event.type,
        JSON.stringify(event.data),
      ],
    });
  }

  /** Like {@link append}, in one statement however many there are. */
  appendAll(transaction: Transaction, events: readonly DomainEvent[]): void {
    if (events.length === 0) return;
    transaction.closeWith({
      // `json` and not `jsonb`, which would not keep the order of a payload's members.
      text: `INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
             SELECT $1::uuid, event.* FROM json_to_recordset($2::json) AS event (
               id uuid, "aggregateType" text, "aggregateId" uuid, "aggregateVersion" integer, type text, data json)`,
      values: [transaction.tenantId, JSON.stringify(events.map((event) => ({ id: uuidv7(), ...event })))],
    });
  }
}
