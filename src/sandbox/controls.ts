import { armFault, clearFaults, FAULTS, OPERATIONS } from './faults.js';
import { JsonMembers } from './json-members.js';
import { readLedger } from './ledger.js';
import { json, PlainRefusal, type Reply, type SandboxRequest } from './reply.js';
import type { SandboxDatabase } from './sandbox-database.js';
import { createRefund, type NewRefund, settleRefund } from './stripe/refunds.js';
import { NO_REQUEST } from './webhooks/events.js';
import { REDELIVERY_ORDERS, type WebhookDelivery } from './webhooks/delivery.js';

const LONGEST_DELAY_MS = 600_000;
const MOST_TIMES = 1_000;

/** What only a sandbox has: the hands of whoever tests against it. */
export class Controls {
  constructor(
    private readonly database: SandboxDatabase,
    private readonly delivery: WebhookDelivery,
    private readonly wake: () => void,
    private readonly settleMs: number,
  ) {}

  /** `POST /sandbox/faults { operation, fault, times, delayMs }` */
  async armFault({ body }: SandboxRequest): Promise<Reply> {
    const members = JsonMembers.read(body, ['operation', 'fault', 'times', 'delayMs']);
    const operation = members.oneOf('operation', OPERATIONS);
    const fault = members.oneOf('fault', FAULTS);
    const times = members.integer('times', 1, MOST_TIMES, 1);
    const delayMs = members.integer('delayMs', 0, LONGEST_DELAY_MS, 0);
    await armFault(this.database, operation, { fault, delayMs }, times);
    return json(201, { operation, fault, times, delayMs });
  }

  /** `DELETE /sandbox/faults` */
  async clearFaults(): Promise<Reply> {
    await clearFaults(this.database);
    return { status: 204 };
  }

  /** `GET /sandbox/effects` */
  async effects(): Promise<Reply> {
    return json(200, await readLedger(this.database));
  }

  /** `POST /sandbox/webhooks { paused }` */
  async pauseWebhooks({ body }: SandboxRequest): Promise<Reply> {
    const paused = JsonMembers.read(body, ['paused']).boolean('paused');
    await this.database.query('UPDATE sandbox.switches SET webhooks_paused = $1', [paused]);
    this.wake();
    return json(200, { paused });
  }

  /** `POST /sandbox/webhooks/redeliver { order }`: answers when each event was sent once more, one after the other. */
  async redeliver({ body }: SandboxRequest): Promise<Reply> {
    const members = JsonMembers.read(body.length === 0 ? Buffer.from('{}') : body, ['order']);
    const order = members.oneOf('order', REDELIVERY_ORDERS, 'original');
    if (!this.delivery.hasReceiver) throw new PlainRefusal(409, 'no_webhook', 'The sandbox was given no webhook URL.');
    return json(200, await this.delivery.redeliver(order));
  }

  /** `POST /sandbox/refunds/{id}/fail` and `…/succeed`: the bank's last word on a refund. */
  async settleRefund(id: string, status: 'succeeded' | 'failed'): Promise<Reply> {
    const view = await this.database.transaction((sql) => settleRefund(sql, id, status, NO_REQUEST));
    if (!view) throw new PlainRefusal(404, 'refund_unknown', 'There is no such refund.');
    this.wake();
    return json(200, view);
  }

  /** `POST /sandbox/payment_intents/{id}/refund { amount }`: what a merchant does by hand in Stripe's dashboard. */
  async refundByHand(id: string, { body }: SandboxRequest): Promise<Reply> {
    const members = JsonMembers.read(body.length === 0 ? Buffer.from('{}') : body, ['amount']);
    const amount = members.has('amount') ? members.integer('amount', 1, Number.MAX_SAFE_INTEGER) : undefined;
    const wanted: NewRefund = { of: { payment_intent: id }, amount, reason: null, metadata: {} };
    const reply = await this.database.transaction((sql) => createRefund(sql, wanted, NO_REQUEST, this.settleMs));
    this.wake();
    return reply;
  }
}
