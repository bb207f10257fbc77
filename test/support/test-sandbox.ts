import { Agent } from 'node:http';
import Stripe from 'stripe';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.js';
import { ApiClient } from './api-client.js';
import { TestDatabase } from './test-database.js';

type Options = Partial<Omit<SandboxOptions, 'databaseUrl'>>;

export interface Ledger {
  effects: {
    operation: string;
    reference: string;
    amount: number;
    currency: string;
    idempotencyKey: string | null;
    createdAt: string;
  }[];
  calls: { operation: string; idempotencyKey: string | null; status: number | null; at: string }[];
}

/** The provider stand-in in this process, on a database of its own, and who talks to it. */
export class TestSandbox {
  private constructor(
    readonly database: TestDatabase,
    private readonly options: Options,
    private running: Sandbox,
    readonly errors: unknown[],
  ) {}

  static async start(options: Options = {}): Promise<TestSandbox> {
    const database = await TestDatabase.create();
    const errors: unknown[] = [];
    const full = { port: 0, onError: (error: unknown) => errors.push(error), ...options };
    return new TestSandbox(database, full, await startSandbox({ ...full, databaseUrl: database.url }), errors);
  }

  get url(): string {
    return this.running.url;
  }

  get sandbox(): Sandbox {
    return this.running;
  }

  /** Plain requests, without a key of Stripe's. */
  get http(): ApiClient {
    return new ApiClient(this.url, undefined);
  }

  get stripe(): Stripe {
    return stripeAt(this.url);
  }

  async arm(operation: string, fault: string, more: { times?: number; delayMs?: number } = {}): Promise<void> {
    const { status, text } = await this.http.post('/sandbox/faults', { operation, fault, ...more });
    if (status !== 201) throw new Error(`the fault was not armed: ${text}`);
  }

  async ledger(): Promise<Ledger> {
    return (await this.http.get('/sandbox/effects')).body as Ledger;
  }

  /** Another process, as far as it can tell: everything but the database is new. */
  async restart(): Promise<void> {
    await this.running.stop();
    this.running = await startSandbox({ port: 0, ...this.options, databaseUrl: this.database.url });
  }

  async stop(): Promise<void> {
    await this.running.stop();
    await this.database.drop();
  }
}

/** The official SDK on a sandbox, and one that really never repeats a call by itself. */
export function stripeAt(url: string, apiKey = 'sk_test_sandbox'): Stripe {
  const { hostname, port } = new URL(url);
  const httpClient = Stripe.createNodeHttpClient(new Agent({ keepAlive: false }));
  const makeRequest = httpClient.makeRequest.bind(httpClient);
  // The SDK repeats a call once whose connection was closed, whatever maxNetworkRetries says; it knows that by the code.
  httpClient.makeRequest = (...args) =>
    makeRequest(...args).catch((error: NodeJS.ErrnoException) => {
      throw Object.assign(new Error(error.message), { code: `NOT_RETRIED_${error.code}` });
    });
  return new Stripe(apiKey, {
    protocol: 'http',
    host: hostname,
    port,
    maxNetworkRetries: 0,
    telemetry: false,
    httpClient,
  });
}
