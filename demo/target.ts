import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { OrdersClient } from '../src/client/index.js';
import { FrontDoor } from './front-door.js';
import { Mailbox } from './mailbox.js';
import type { Opened } from './opened.js';
import { Provider } from './provider.js';
import { ServerProcess } from './server-process.js';
import type { Side, SideName } from './side.js';
import { until } from './until.js';
import type { Witness } from './witness.js';

const BUILT = fileURLToPath(new URL('..', import.meta.url));
const API_KEY = 'sk_demo_acme';
const WEBHOOK_SECRET = 'whsec_demo';

/** What there is of each thing: rows, events, charges, mails, and whatever an accident counts itself. */
export type Counts = Readonly<Record<string, number>>;

/** Where a target lives. */
export interface Place {
  readonly databaseUrl: string;
  /** Its working directory. */
  readonly folder: string;
  readonly log: (text: string) => void;
}

/**
 * One of the two sides, running: its process, the door that clients come through, its provider, its mail server and its
 * database, to be looked into.
 */
export class Target {
  private running: ServerProcess | undefined;

  private constructor(
    private readonly side: Side,
    private readonly place: Place,
    private readonly opened: Opened,
    private readonly database: pg.Pool,
    readonly door: FrontDoor,
    readonly provider: Provider,
    private readonly mailbox: Mailbox,
  ) {}

  static async open(side: Side, place: Place, opened: Opened): Promise<Target> {
    const { databaseUrl, log } = place;
    await opened.finish(() => side.prepare(databaseUrl));
    const database = await opened.add(
      async () => new pg.Pool({ connectionString: databaseUrl, max: 1 }).on('error', () => undefined),
      (pool) => pool.end(),
    );
    const door = await opened.add(
      () => FrontDoor.open(),
      (door) => door.close(),
    );
    const provider = await opened.add(
      () => Provider.open(databaseUrl, log),
      (provider) => provider.close(),
    );
    const mailbox = await opened.add(
      () => Mailbox.open(),
      (mailbox) => mailbox.close(),
    );
    const target = new Target(side, place, opened, database, door, provider, mailbox);
    await target.start();
    provider.sendWebhooksTo(`${door.url}/v1/webhooks/stripe`, WEBHOOK_SECRET);
    return target;
  }

  get name(): SideName {
    return this.side.name;
  }

  /** Starts its process, also again after it was killed. */
  async start(): Promise<void> {
    const { place, side, provider, mailbox } = this;
    const env = side.env({
      databaseUrl: place.databaseUrl,
      providerUrl: provider.url,
      webhookSecret: WEBHOOK_SECRET,
      mailUrl: mailbox.url,
    });
    this.running = await this.opened.add(
      () => ServerProcess.start({ script: `${BUILT}/${side.script}`, env, cwd: place.folder, log: place.log }),
      (process) => process.kill(),
    );
    this.door.upstream = this.running.url;
  }

  /** SIGKILL: the process has no time for anything. */
  async kill(): Promise<void> {
    await this.running?.kill();
    this.door.upstream = undefined;
  }

  /**
   * The client that comes with the service, for either side: the same attempts, the same key on each of them. The naive
   * side does not look at keys.
   */
  client(witness?: Witness): OrdersClient {
    return new OrdersClient({
      baseUrl: this.door.url,
      apiKey: API_KEY,
      maxAttempts: 1_000, // its deadline ends it: a busy machine may take long to start a process again
      backoffBaseMs: 100,
      backoffCapMs: 1_000,
      ...(witness && { fetch: witness.fetch }),
    });
  }

  /** One request, sent once, as a browser does. */
  async send(witness: Witness, path: string, body: object, key: string): Promise<{ status: number; body: unknown }> {
    const response = await witness.fetch(`${this.door.url}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${API_KEY}`, 'Idempotency-Key': key },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: await response.json() };
  }

  /** Waits until all has come to rest that goes on behind the answers: messages, events, mails. */
  async settled(): Promise<void> {
    await until(`${this.side.name} comes to rest`, async () => {
      const own = await this.row(this.side.pending);
      const undelivered = await this.row(
        'SELECT count(*)::int AS pending FROM sandbox.events WHERE delivered_at IS NULL',
      );
      return own.pending === 0 && undelivered.pending === 0;
    });
  }

  /** What exists now. */
  async counts(): Promise<Counts> {
    return { ...(await this.row(this.side.counts)), charges: await this.provider.charges(), mails: this.mailbox.mails };
  }

  /** What the provider has told of earlier accidents is not told again with this one's. */
  async forgetMessages(): Promise<void> {
    await this.database.query('DELETE FROM sandbox.events');
  }

  private async row(statement: string): Promise<Record<string, number>> {
    const { rows } = await this.database.query<Record<string, number>>(statement);
    return rows[0] ?? {};
  }
}
