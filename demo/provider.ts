import { type Sandbox, startSandbox } from '../src/sandbox/sandbox.js';

interface Effect {
  readonly operation: string;
}

/** The payment provider of one side: the stand-in that the service comes with, and its controls. */
export class Provider {
  private constructor(private readonly sandbox: Sandbox) {}

  static async open(databaseUrl: string, log: (text: string) => void): Promise<Provider> {
    const onError = (error: unknown) => log(`sandbox: ${String(error)}\n`);
    return new Provider(await startSandbox({ databaseUrl, port: 0, webhookRetryMs: 200, onError }));
  }

  get url(): string {
    return this.sandbox.url;
  }

  sendWebhooksTo(url: string, secret: string): void {
    this.sandbox.sendWebhooksTo({ url, secret });
  }

  /** How many charges have moved money. */
  async charges(): Promise<number> {
    const response = await fetch(`${this.url}/sandbox/effects`);
    const { effects } = (await response.json()) as { effects: Effect[] };
    return effects.filter(({ operation }) => operation === 'payment_intents.create').length;
  }

  /** It makes the next charges at once, and is slow to say so, for as long as the work takes. */
  async whileSlow<T>(delayMs: number, times: number, work: () => Promise<T>): Promise<T> {
    const fault = { operation: 'payment_intents.create', fault: 'delay', delayMs, times };
    await this.control('POST', 'faults', fault);
    try {
      return await work();
    } finally {
      await this.control('DELETE', 'faults');
    }
  }

  /** Its messages wait for as long as the work takes. */
  async whileSilent<T>(work: () => Promise<T>): Promise<T> {
    await this.control('POST', 'webhooks', { paused: true });
    try {
      return await work();
    } finally {
      await this.control('POST', 'webhooks', { paused: false });
    }
  }

  /** Delivers every message once more. @returns how many, and how many of them were not acknowledged */
  async redeliver(order: 'original' | 'reverse'): Promise<{ sent: number; failed: number }> {
    const response = await this.control('POST', 'webhooks/redeliver', { order });
    return (await response.json()) as { sent: number; failed: number };
  }

  async close(): Promise<void> {
    await this.sandbox.stop();
  }

  private async control(method: string, path: string, body?: object): Promise<Response> {
    const response = await fetch(`${this.url}/sandbox/${path}`, {
      method,
      headers: { 'Content-Type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`The sandbox refused ${path}: ${await response.text()}`);
    return response;
  }
}
