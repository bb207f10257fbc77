import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.js';
import { SANDBOX_WEBHOOK_SECRET } from '../../src/payments/provider-access.js';
import { clearSandbox, SandboxClient } from '../payments/paying.js';
import { runBuilt } from '../support/built-command.js';
import { ServiceProcess, type ServiceRequest, type ServiceResponse } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { Wires } from './payments-wires.js';

/** Short enough that everything which takes its time happens many times in a run. */
const SETTINGS = {
  PROVIDER_TIMEOUT: '400ms',
  IDEMPOTENCY_LEASE: '2s',
  IDEMPOTENCY_WAIT: '500ms',
  RECONCILIATION_INTERVAL: '300ms',
  RECONCILIATION_GIVE_UP: '4s',
  SEED_DEMO_TENANTS: 'true',
  RATE_LIMIT: '0',
  LOG_LEVEL: 'warn',
};
/** Nobody waits longer for an answer: a client that has lost its patience, or talks to a process that stands still. */
const PATIENCE_MS = 15_000;

/** Long, for a machine that has much else to do. */
const STARTED_WITHIN_MS = 90_000;

/** Two processes of the service on one database, and a provider on another, with wires between them. */
export class PaymentsWorld {
  crashes = 0;
  stalls = 0;
  /** Questions that only a person could answer. */
  decided = 0;
  /** What ended processes had printed. */
  private printed = '';
  /** How much the others had printed before this run. */
  private heard = [0, 0];

  private constructor(
    readonly database: TestDatabase,
    readonly provider: TestDatabase,
    readonly sandbox: SandboxClient,
    private readonly running: Sandbox,
    readonly wires: Wires,
    private readonly processes: ServiceProcess[],
  ) {}

  static async start(): Promise<PaymentsWorld> {
    const [database, provider] = await Promise.all([TestDatabase.create(), TestDatabase.create()]);
    const running = await startSandbox({
      databaseUrl: provider.url,
      port: 0,
      webhookRetryMs: 50,
      refundSettleMs: 700,
    });
    const processes: ServiceProcess[] = [];
    const wires = await Wires.start(running.url, () => processes.map(({ baseUrl }) => baseUrl));
    const world = new PaymentsWorld(database, provider, new SandboxClient(running.url), running, wires, processes);
    processes.push(...(await Promise.all([world.spawn(), world.spawn()])));
    running.sendWebhooksTo({ url: `${wires.url}/v1/webhooks/stripe`, secret: SANDBOX_WEBHOOK_SECRET });
    return world;
  }

  /** Empties both databases for the next run. */
  async begin(run: { readonly seed: number; readonly lost: number }): Promise<void> {
    await this.database.clear();
    await clearSandbox(this.provider);
    this.wires.begin(run);
    this.crashes = 0;
    this.stalls = 0;
    this.decided = 0;
    this.printed = '';
    this.heard = this.processes.map(({ output }) => output.length);
  }

  /** @returns `undefined` when no complete answer came */
  async request(
    process: number,
    method: string,
    path: string,
    { signal, headers, body }: ServiceRequest = {},
  ): Promise<ServiceResponse | undefined> {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    try {
      return await this.processes[process]!.request(method, path, {
        headers: { Authorization: `Bearer ${ACME.key}`, ...headers },
        ...(body !== undefined && { body }),
        signal: signal ? AbortSignal.any([signal, patience]) : patience,
      });
    } catch {
      return undefined;
    }
  }

  /** Ends a process in the midst of whatever it does, and starts another one in its place. */
  async crash(process: number): Promise<void> {
    this.crashes += 1;
    await this.processes[process]!.kill();
    this.printed += this.processes[process]!.output.slice(this.heard[process]);
    this.heard[process] = 0;
    this.processes[process] = await this.spawn();
  }

  /** Lets a process stand still: past its leases, and past the time in which what it does is given up. */
  async stall(process: number, ms: number): Promise<void> {
    this.stalls += 1;
    const stalled = this.processes[process]!;
    stalled.signal('SIGSTOP');
    await new Promise((resolve) => setTimeout(resolve, ms));
    stalled.signal('SIGCONT');
  }

  /** A person looks at the bank, finds that what was to be given back never came there, and says so. */
  async decide(reviewId: string): Promise<void> {
    const { code, stderr } = await runBuilt('payments.command.js', ['resolve', reviewId, 'failed'], {
      ...SETTINGS,
      DATABASE_URL: this.database.url,
      STRIPE_API_BASE: this.wires.url,
      BANK_API_BASE: this.wires.url,
    });
    if (code === 0) this.decided += 1;
    else if (!/no open review/.test(stderr)) throw new Error(`The decision was not written down: ${code} ${stderr}`);
  }

  /** What the processes have said in this run about something. */
  log(about: RegExp): string[] {
    const all = this.printed + this.processes.map(({ output }, n) => output.slice(this.heard[n])).join('');
    return all.split('\n').filter((line) => about.test(line));
  }

  async stop(): Promise<void> {
    await Promise.all(this.processes.map((process) => process.kill()));
    await this.wires.stop();
    await this.running.stop();
    await Promise.all([this.database.drop(), this.provider.drop()]);
  }

  private spawn(): Promise<ServiceProcess> {
    const settings = { ...SETTINGS, DATABASE_URL: this.database.url };
    const providers = { STRIPE_API_BASE: this.wires.url, BANK_API_BASE: this.wires.url };
    return ServiceProcess.start({ ...settings, ...providers }, { timeoutMs: STARTED_WITHIN_MS });
  }
}
