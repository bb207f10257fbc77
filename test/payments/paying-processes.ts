import { randomUUID } from 'node:crypto';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.js';
import { newOrder } from '../support/api-client.js';
import { Wire } from '../support/boundaries.js';
import { HttpProxy } from '../support/http-proxy.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { ServiceProcess, type ServiceResponse } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { SandboxClient } from './paying.js';

/** The shortest lease that this timeout allows, so that what a dead owner held is soon free. */
export const SHORT_LEASE = { PROVIDER_TIMEOUT: '500ms', IDEMPOTENCY_LEASE: '2s', IDEMPOTENCY_WAIT: '3s' };

/** A request that moves money, to be sent again and again. */
export interface MoneyRequest {
  readonly path: string;
  readonly body: unknown;
  readonly key: string;
}

/**
 * The built service in two processes on one database, and a sandbox with a database of its own: `owner` reaches everything
 * through proxies, so that it can be cut off, killed or stopped at any message; `other` goes the direct way.
 */
export class PayingProcesses {
  owner!: ServiceProcess;
  other!: ServiceProcess;

  private constructor(
    readonly database: TestDatabase,
    readonly postgres: PostgresProxy,
    readonly provider: HttpProxy,
    readonly wire: Wire,
    readonly sandbox: SandboxClient,
    private readonly sandboxServer: Sandbox,
    private readonly sandboxDatabase: TestDatabase,
    private readonly environment: Record<string, string>,
  ) {}

  /**
   * @param environment of both
   * @param different settings of `other`
   */
  static async start(
    environment: Record<string, string> = {},
    different: Record<string, string> = {},
  ): Promise<PayingProcesses> {
    const [database, sandboxDatabase] = [await TestDatabase.create(), await TestDatabase.create()];
    const sandbox = await startSandbox({ databaseUrl: sandboxDatabase.url, port: 0 });
    const postgres = await PostgresProxy.start(database.url);
    const provider = await HttpProxy.start(sandbox.url);
    const processes = new PayingProcesses(
      database,
      postgres,
      provider,
      new Wire(postgres, provider),
      new SandboxClient(sandbox.url),
      sandbox,
      sandboxDatabase,
      {
        SEED_DEMO_TENANTS: 'true',
        LOG_LEVEL: 'fatal',
        RECONCILIATION_INTERVAL: '24h',
        IDEMPOTENCY_CLEANUP_INTERVAL: '24h',
        ...SHORT_LEASE,
        ...environment,
      },
    );
    [processes.other, processes.owner] = await Promise.all([processes.startDirect(different), processes.startOwner()]);
    return processes;
  }

  /** Goes on with other settings of `other`. */
  async replaceOther(different: Record<string, string>): Promise<void> {
    await this.other.kill();
    this.other = await this.startDirect(different);
  }

  /** A process that reaches everything through the proxies. */
  startOwner(different: Record<string, string> = {}): Promise<ServiceProcess> {
    return this.startAt(this.postgres.url, this.provider.url, different);
  }

  /** A process that reaches everything by the direct way. */
  startDirect(different: Record<string, string> = {}): Promise<ServiceProcess> {
    return this.startAt(this.database.url, this.sandbox.url, different);
  }

  send(to: ServiceProcess, { path, body, key }: MoneyRequest): Promise<ServiceResponse> {
    return to.request('POST', path, { headers: { ...AUTHORIZED, 'Idempotency-Key': key }, body });
  }

  /** Lets the process look the API key up, so that it does not for the next seconds. */
  async logIn(process: ServiceProcess): Promise<void> {
    await this.get(process, '/v1/orders?limit=1');
  }

  get(from: ServiceProcess, path: string): Promise<ServiceResponse> {
    return from.request('GET', path, { headers: AUTHORIZED });
  }

  /** @param amount what tells its effects from those of others */
  async order(amount: number): Promise<string> {
    const body = newOrder({ items: [{ sku: 'tea', quantity: 1, unitAmount: amount }] });
    const answer = await this.send(this.other, { path: '/v1/orders', body, key: randomUUID() });
    if (answer.status !== 201) throw new Error(`No order was created: ${answer.status} ${answer.text}`);
    return (answer.json as { id: string }).id;
  }

  async stop(): Promise<void> {
    await ServiceProcess.killAll();
    await this.provider.stop();
    await this.postgres.stop();
    await this.sandboxServer.stop();
    await this.database.drop();
    await this.sandboxDatabase.drop();
  }

  private startAt(databaseUrl: string, providerUrl: string, different: Record<string, string>) {
    return ServiceProcess.start({
      ...this.environment,
      DATABASE_URL: databaseUrl,
      STRIPE_API_BASE: providerUrl,
      BANK_API_BASE: providerUrl,
      ...different,
    });
  }
}

const AUTHORIZED = { Authorization: `Bearer ${ACME.key}` };
