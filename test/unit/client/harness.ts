import type { Clock } from '../../../src/client/clock.js';
import {
  MemoryIntentStore,
  OrdersClient,
  type IntentStore,
  type Order,
  type OrdersClientOptions,
  type SettledOutcome,
} from '../../../src/client/index.js';
import { type ScriptedServer, type Script, sendJson } from '../../support/scripted-server.js';

export const NEW_ORDER = { currency: 'EUR', items: [{ sku: 'tea', quantity: 2, unitAmount: 450 }] };

export const ORDER: Order = {
  id: '01a228ef-4efb-7035-9eea-4dd650750e47',
  externalRef: null,
  status: 'pending',
  currency: 'EUR',
  items: NEW_ORDER.items,
  totalAmount: 900,
  metadata: {},
  version: 1,
  createdAt: '2026-11-29T20:11:41.698Z',
  updatedAt: '2026-11-29T20:11:41.698Z',
};

/** As the servers of the tests say, whose dates are real ones. */
export const NOW = Math.floor(Date.now() / 1_000) * 1_000;

export function ago(ms: number): string {
  return new Date(NOW - ms).toISOString();
}

/** A clock that goes only when it is told to, and that a test sets as it likes. */
export class SetClock implements Clock {
  wall = NOW;
  elapsed = 0;

  now(): number {
    return this.wall;
  }

  monotonic(): number {
    return this.elapsed;
  }

  pass(ms: number): void {
    this.wall += ms;
    this.elapsed += ms;
  }
}

/** A client at a server of the test's, which waits no real time and notes everything. */
export class Harness {
  readonly clock = new SetClock();
  readonly waits: number[] = [];
  readonly told: string[] = [];
  readonly settled: SettledOutcome[] = [];
  readonly client: OrdersClient;

  constructor(
    readonly server: ScriptedServer,
    options: Partial<OrdersClientOptions> = {},
    readonly store: IntentStore = new MemoryIntentStore(),
  ) {
    this.client = new OrdersClient({
      baseUrl: server.url,
      apiKey: 'sk_test',
      store: this.store,
      clock: this.clock,
      random: () => 0.5,
      sleep: async (ms) => {
        this.waits.push(ms);
        this.clock.pass(ms);
      },
      settle: (outcome) => void this.settled.push(outcome),
      hooks: {
        onAttempt: ({ attempt }) => this.told.push(`attempt ${attempt}`),
        onRetry: ({ reason }) => this.told.push(`retry: ${reason}`),
        onSuccess: () => this.told.push('success'),
        onGiveUp: ({ error }) => this.told.push(`gave up: ${error.kind}`),
      },
      ...options,
    });
  }

  /** What each request that arrived had for a key. */
  get keys(): unknown[] {
    return this.server.requests.map(({ headers }) => headers['idempotency-key']);
  }

  async stored(): Promise<number> {
    return (await this.store.list()).intents.length;
  }
}

/** Answers the first requests one by one, and each later one with the last. */
export function inTurn(server: ScriptedServer, ...scripts: Script[]): void {
  let next = 0;
  server.script = (response, request) => scripts[Math.min(next++, scripts.length - 1)]!(response, request);
}

export const created: Script = (response) => sendJson(response, 201, ORDER);

export function problem(status: number, code: string, headers: Record<string, string> = {}): Script {
  const body = { type: `http://x/problems/${code}`, title: code, status, detail: 'So it is.', instance: '/', code };
  return (response) => sendJson(response, status, body, { 'Content-Type': 'application/problem+json', ...headers });
}

/** The request arrived whole, and the connection breaks. */
export const cut: Script = (response) => void response.socket?.resetAndDestroy();

export function rejection(promise: Promise<unknown>): Promise<Record<string, unknown>> {
  return promise.then(
    (value) => Promise.reject(new Error(`It was resolved: ${JSON.stringify(value)}`)),
    (error: unknown) => error as Record<string, unknown>,
  );
}

export async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const row of rows) found.push(row);
  return found;
}
