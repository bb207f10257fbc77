import type { Job } from '../background.js';
import type { SandboxDatabase } from '../sandbox-database.js';
import { sign } from './signature.js';

/** Where events go. */
export interface Webhook {
  readonly url: string;
  /** `whsec_…`, known to both sides. */
  readonly secret: string;
}

export const REDELIVERY_ORDERS = ['original', 'reverse', 'random'] as const;
export type RedeliveryOrder = (typeof REDELIVERY_ORDERS)[number];

const AT_ONCE = 8;
const ATTEMPT_TIMEOUT_MS = 10_000;
const MOST_ATTEMPTS = 20;
const LONGEST_DELAY = `interval '1 hour'`;

interface DueEvent {
  readonly seq: number;
  readonly payload: string;
}

/** Sends events until they are taken, first at once and then after growing delays; the table is its memory. */
export class WebhookDelivery implements Job {
  private readonly stopped = new AbortController();

  constructor(
    private readonly database: SandboxDatabase,
    private webhook: Webhook | undefined,
    /** The first delay; each later one is twice as long. */
    private readonly retryMs: number,
  ) {}

  sendTo(webhook: Webhook | undefined): void {
    this.webhook = webhook;
  }

  get hasReceiver(): boolean {
    return this.webhook !== undefined;
  }

  /** Sends what is due, and again what becomes due meanwhile. */
  async run(): Promise<void> {
    while (this.webhook && !this.stopped.signal.aborted) {
      const due = await this.claim();
      if (due.length === 0) return;
      await Promise.all(due.map((event) => this.attempt(event)));
    }
  }

  /** Milliseconds until an event is due; undefined when none waits. */
  async untilDue(): Promise<number | undefined> {
    if (!this.webhook) return undefined;
    const [next] = await this.database.query<{ ms: number | null }>(
      `SELECT extract(epoch FROM min(next_attempt_at) - statement_timestamp())::float8 * 1000 AS ms
       FROM sandbox.events, sandbox.switches
       WHERE delivered_at IS NULL AND attempts < ${MOST_ATTEMPTS} AND NOT webhooks_paused`,
    );
    return next?.ms ?? undefined;
  }

  /** @returns how many were sent again, and how many of them were not taken */
  async redeliver(order: RedeliveryOrder): Promise<{ sent: number; failed: number }> {
    const by = { original: 'seq', reverse: 'seq DESC', random: 'random()' }[order];
    const events = await this.database.query<DueEvent>(`SELECT seq, payload FROM sandbox.events ORDER BY ${by}`);
    let failed = 0;
    for (const { payload } of events) if (!(await this.send(payload))) failed += 1;
    return { sent: events.length, failed };
  }

  stop(): void {
    this.stopped.abort();
  }

  /**
   * Takes events for an attempt by dating the next one past this one's end. So no other sandbox sends them meanwhile, and
   * one that is killed in between loses nothing.
   */
  private claim(): Promise<DueEvent[]> {
    return this.database.query<DueEvent>(
      `UPDATE sandbox.events SET attempts = attempts + 1,
         next_attempt_at = statement_timestamp() + interval '${ATTEMPT_TIMEOUT_MS + 1_000} milliseconds'
       WHERE seq IN (
         SELECT seq FROM sandbox.events
         WHERE delivered_at IS NULL AND next_attempt_at <= statement_timestamp() AND attempts < ${MOST_ATTEMPTS}
           AND NOT (SELECT webhooks_paused FROM sandbox.switches)
         ORDER BY seq LIMIT ${AT_ONCE} FOR UPDATE SKIP LOCKED)
       RETURNING seq, payload`,
    );
  }

  private async attempt({ seq, payload }: DueEvent): Promise<void> {
    if (await this.send(payload)) {
      await this.database.query('UPDATE sandbox.events SET delivered_at = statement_timestamp() WHERE seq = $1', [seq]);
      return;
    }
    await this.database.query(
      `UPDATE sandbox.events SET next_attempt_at = statement_timestamp() +
         least(${LONGEST_DELAY}, $2 * 2 ^ (attempts - 1) * interval '1 millisecond')
       WHERE seq = $1`,
      [seq, this.retryMs],
    );
  }

  /** @returns whether the receiver said that it has the event */
  private async send(payload: string): Promise<boolean> {
    if (!this.webhook) return false;
    try {
      const response = await fetch(this.webhook.url, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json; charset=utf-8',
          'User-Agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
          'Stripe-Signature': sign(payload, this.webhook.secret),
        },
        body: payload,
        redirect: 'manual',
        signal: AbortSignal.any([this.stopped.signal, AbortSignal.timeout(ATTEMPT_TIMEOUT_MS)]),
      });
      await response.arrayBuffer();
      return response.ok;
    } catch {
      return false;
    }
  }
}
