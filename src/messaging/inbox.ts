import { createHash } from 'node:crypto';
import { Injectable, Logger } from '@nestjs/common';
import type { Transaction } from '../database/transaction.js';

/** A message as its producer numbered it. */
export interface IncomingMessage {
  /** Who applies it: each consumer applies a message once. */
  readonly consumer: string;
  /** The producer's id, the same on every redelivery. */
  readonly messageId: string;
  readonly bytes: Buffer | string;
}

/**
 * Remembers which messages have been applied, in the transaction of what they cause: the effect and the memory of it
 * become visible together, or neither does. Acknowledge a message after COMMIT, never before.
 */
@Injectable()
export class Inbox {
  private readonly logger = new Logger(Inbox.name);

  /**
   * Takes a message in, unless it was applied before. Of two deliveries at once the second waits here for the first.
   *
   * @returns whether it is new: only then apply it
   */
  async accept(transaction: Transaction, { consumer, messageId, bytes }: IncomingMessage): Promise<boolean> {
    const fingerprint = createHash('sha256').update(bytes).digest();
    const scope = [transaction.tenantId, consumer, messageId];
    const inserted = await transaction.query(
      `INSERT INTO processed_messages (tenant_id, consumer, message_id, fingerprint)
       VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING 1`,
      [...scope, fingerprint],
    );
    if (inserted.length > 0) return true;
    const [known] = await transaction.query<{ fingerprint: Buffer }>(
      'SELECT fingerprint FROM processed_messages WHERE tenant_id = $1 AND consumer = $2 AND message_id = $3',
      scope,
    );
    if (known && !known.fingerprint.equals(fingerprint)) {
      this.logger.error(`message_id_reused: ${consumer} got another message under the id ${messageId}; it is ignored`);
    }
    return false;
  }
}
