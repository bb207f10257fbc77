import { randomUUID } from 'node:crypto';
import { SANDBOX_WEBHOOK_SECRET } from '../../src/payments/provider-access.js';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.js';
import { sign } from '../../src/sandbox/webhooks/signature.js';
import { type ApiClient, type ApiResponse, newOrder } from '../support/api-client.js';
import { ACME, TestApp, type TestParts } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';

export const CARD = { method: 'card', paymentMethod: 'pm_card_visa' };
export const DECLINED_CARD = { method: 'card', paymentMethod: 'pm_card_visa_chargeDeclinedInsufficientFunds' };
export const TRANSFER = { method: 'bank_transfer', account: 'DE89370400440532013000' };

export interface SandboxEffect {
  readonly operation: string;
  readonly reference: string;
  readonly amount: number;
  readonly currency: string;
  readonly idempotencyKey: string | null;
}

export interface SandboxCall {
  readonly operation: string;
  readonly idempotencyKey: string | null;
  readonly status: number | null;
}

/** What the tests ask the stand-in of the providers for, over HTTP. */
export class SandboxClient {
  constructor(readonly url: string) {}

  /** Lets the next calls of an operation go wrong. */
  async arm(operation: string, fault: string, { times = 1, delayMs = 0 } = {}): Promise<void> {
    await this.send('POST', '/sandbox/faults', { operation, fault, times, delayMs });
  }

  async disarm(): Promise<void> {
    await this.send('DELETE', '/sandbox/faults');
  }

  async effects(): Promise<SandboxEffect[]> {
    return ((await this.send('GET', '/sandbox/effects')) as { effects: SandboxEffect[] }).effects;
  }

  async calls(): Promise<SandboxCall[]> {
    return ((await this.send('GET', '/sandbox/effects')) as { calls: SandboxCall[] }).calls;
  }

  async send(method: string, path: string, body?: unknown): Promise<unknown> {
    const answer = await fetch(`${this.url}${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path} at the sandbox: ${answer.status} ${text}`);
    return text === '' ? undefined : (JSON.parse(text) as unknown);
  }
}

/** The service in this process with a sandbox, which has a database of its own. */
export class PayingApp {
  private constructor(
    readonly service: TestApp,
    readonly sandbox: SandboxClient,
    private readonly provider: Sandbox,
    private readonly providerDatabase: TestDatabase,
  ) {}

  /** @param webhooks whether the sandbox tells the service by itself */
  static async start(
    environment: Record<string, string> = {},
    { webhooks = false, ...parts }: TestParts & { webhooks?: boolean } = {},
  ): Promise<PayingApp> {
    const providerDatabase = await TestDatabase.create();
    const provider = await startSandbox({ databaseUrl: providerDatabase.url, port: 0, webhookRetryMs: 50 });
    const service = await TestApp.start(environment, { sandboxUrl: provider.url, ...parts });
    const url = `${service.baseUrl}/v1/webhooks/stripe`;
    if (webhooks) provider.sendWebhooksTo({ url, secret: SANDBOX_WEBHOOK_SECRET });
    return new PayingApp(service, new SandboxClient(provider.url), provider, providerDatabase);
  }

  get database(): TestDatabase {
    return this.service.database;
  }

  as(tenant: { readonly key: string } = ACME): ApiClient {
    return this.service.as(tenant);
  }

  async order(different: Record<string, unknown> = {}): Promise<string> {
    const { status, text, body } = await this.as().post('/v1/orders', newOrder(different));
    if (status !== 201) throw new Error(`No order was created: ${status} ${text}`);
    return body.id as string;
  }

  pay(orderId: string, body: unknown = CARD, key: string = randomUUID()): Promise<ApiResponse> {
    return this.as().post(`/v1/orders/${orderId}/payments`, body, key);
  }

  refund(paymentId: string, body: unknown = {}, key: string = randomUUID()): Promise<ApiResponse> {
    return this.as().post(`/v1/payments/${paymentId}/refunds`, body, key);
  }

  /** A paid order's payment. */
  async paid(body: unknown = CARD, different: Record<string, unknown> = {}): Promise<{ id: string; orderId: string }> {
    const orderId = await this.order(different);
    const answer = await this.pay(orderId, body);
    if (answer.status !== 201) throw new Error(`Not paid: ${answer.status} ${answer.text}`);
    return { id: answer.body.id as string, orderId };
  }

  /** What every test of a guarantee counts. Events are those of payments and refunds. */
  async counts(): Promise<Record<'payments' | 'refunds' | 'movements' | 'events' | 'effects' | 'keys', number>> {
    const [rows] = await this.database.query<Record<'payments' | 'refunds' | 'movements' | 'events' | 'keys', number>>(`
      SELECT (SELECT count(*) FROM payments)::int AS payments, (SELECT count(*) FROM refunds)::int AS refunds,
             (SELECT count(*) FROM money_movements)::int AS movements,
             (SELECT count(*) FROM outbox WHERE aggregatetype <> 'order')::int AS events,
             (SELECT count(*) FROM idempotency_keys WHERE endpoint <> 'orders.create')::int AS keys`);
    return { ...rows!, effects: (await this.sandbox.effects()).length };
  }

  /** What the outbox tells of a payment or a refund, by version: `['payment.succeeded 2']`. */
  async eventsOf(id: string): Promise<string[]> {
    const events = await this.database.query<{ event: string }>(
      `SELECT type || ' ' || aggregateversion AS event FROM outbox WHERE aggregateid = $1 ORDER BY aggregateversion`,
      [id],
    );
    return events.map(({ event }) => event);
  }

  /** What the sandbox has to tell, as it is signed and sent. */
  async notices(): Promise<string[]> {
    const events = await this.providerDatabase.query<{ payload: string }>(
      'SELECT payload FROM sandbox.events ORDER BY seq',
    );
    return events.map(({ payload }) => payload);
  }

  /** Delivers a notice as Stripe would. */
  tell(notice: string): Promise<ApiResponse> {
    const headers = { 'Stripe-Signature': sign(notice, SANDBOX_WEBHOOK_SECRET) };
    return this.as().send('POST', '/v1/webhooks/stripe', { body: notice, headers });
  }

  /** Empties both databases. */
  async clear(): Promise<void> {
    await this.database.clear();
    await clearSandbox(this.providerDatabase);
  }

  async stop(): Promise<void> {
    await this.service.app.close();
    await this.provider.stop();
    await this.database.drop();
    await this.providerDatabase.drop();
  }
}

/** Lets the sandbox that keeps its state there forget everything. */
export async function clearSandbox(database: TestDatabase): Promise<void> {
  await database.query(
    `DO $$ DECLARE name text; BEGIN
       FOR name IN SELECT tablename FROM pg_tables
                   WHERE schemaname = 'sandbox' AND tablename NOT IN ('schema_versions', 'switches') LOOP
         EXECUTE format('TRUNCATE sandbox.%I CASCADE', name);
       END LOOP; END $$`,
  );
}
