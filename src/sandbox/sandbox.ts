import { Background } from './background.js';
import { BankApi } from './bank/bank-api.js';
import { Controls } from './controls.js';
import { CreateCalls } from './create-calls.js';
import { route, routesOf } from './routes.js';
import { PortTakenError, SandboxError } from './sandbox-error.js';
import { SandboxDatabase } from './sandbox-database.js';
import { SandboxServer } from './sandbox-server.js';
import { RefundSettlement } from './stripe/refund-settlement.js';
import { StripeApi } from './stripe/stripe-api.js';
import { type Webhook, WebhookDelivery } from './webhooks/delivery.js';

export type { Webhook } from './webhooks/delivery.js';

export interface SandboxOptions {
  /** A Postgres in which the sandbox may have the schema `sandbox`. */
  readonly databaseUrl: string;
  /** 0: any. */
  readonly port: number;
  /** Who can reach it (127.0.0.1: this machine). */
  readonly host?: string;
  /** Where events go; without it they wait. */
  readonly webhook?: Webhook | undefined;
  /** Milliseconds until an event that was not taken is sent again, twice as long each time (1,000). */
  readonly webhookRetryMs?: number;
  /** Milliseconds that a refund of `pm_card_pendingRefund` and `pm_card_refundFail` takes to its outcome (3,000). */
  readonly refundSettleMs?: number;
  /** Told of what goes wrong inside. */
  readonly onError?: (error: unknown) => void;
}

/** A payment provider and a bank that stand in for real ones. */
export interface Sandbox {
  /** `http://127.0.0.1:4242`: the base of `/v1` (Stripe), `/bank` and `/sandbox`. */
  readonly url: string;
  readonly port: number;
  /** Where events go from now on, those that wait included: for a receiver that does not know its port at once. */
  sendWebhooksTo(webhook: Webhook | undefined): void;
  /** Ends it; what it knows stays in the database. */
  stop(): Promise<void>;
}

/**
 * Starts the stand-in. The official `stripe` SDK works on it as on Stripe; see the section on the sandbox in the contract
 * for its faults and its ledger.
 *
 * @throws SandboxError when its database or its port cannot be used, and when NODE_ENV is production
 * @example
 * const sandbox = await startSandbox({ databaseUrl, port: 0 });
 * const { hostname, port } = new URL(sandbox.url);
 * const stripe = new Stripe('sk_test_any', { protocol: 'http', host: hostname, port });
 */
export async function startSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { host = '127.0.0.1', onError = console.error, refundSettleMs = 3_000 } = options;
  if (process.env.NODE_ENV === 'production') {
    throw new SandboxError('The sandbox moves no money and does not run where NODE_ENV is production.');
  }
  const database = await SandboxDatabase.open(options.databaseUrl);
  const delivery = new WebhookDelivery(database, options.webhook, options.webhookRetryMs ?? 1_000);
  const sending = new Background(delivery, onError);
  const settling = new Background(new RefundSettlement(database, () => sending.wake()), onError);
  const wake = () => {
    settling.wake();
    sending.wake();
  };
  const calls = new CreateCalls(database, wake);
  const routes = routesOf(
    new StripeApi(database, calls, refundSettleMs),
    new BankApi(database, calls),
    new Controls(database, delivery, wake, refundSettleMs),
  );
  const server = new SandboxServer((request) => route(routes, request), onError);

  const port = await server.listen(options.port, host).catch(async (error: unknown) => {
    await database.close();
    throw explained(error as NodeJS.ErrnoException, options.port, host);
  });
  wake();
  const stop = async () => {
    delivery.stop();
    await Promise.all([server.stop(), settling.stop(), sending.stop()]);
    await database.close();
  };
  let stopped: Promise<void> | undefined;
  return {
    url: urlOf(host, port),
    port,
    sendWebhooksTo: (webhook) => {
      delivery.sendTo(webhook);
      wake();
    },
    stop: () => (stopped ??= stop()),
  };
}

/** Where a sandbox that listens there is reached from this machine. */
export function urlOf(host: string, port: number): string {
  if (host === '0.0.0.0' || host === '::') return `http://127.0.0.1:${port}`;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function explained(error: NodeJS.ErrnoException, port: number, host: string): Error {
  if (error.code === 'EADDRINUSE') {
    return new PortTakenError(`Port ${port} is taken: set SANDBOX_PORT to another one, or to 0 for any.`);
  }
  return new SandboxError(`The sandbox cannot listen on ${host}, port ${port}: ${error.message}`);
}
