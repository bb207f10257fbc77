import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { PostgresProxy, type WireMessage } from '../support/postgres-proxy.js';
import { ServiceProcess } from '../support/service-process.js';
import { TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { MailServer } from './mail-server.js';
import { applied, tellOfPayment } from './paid-events.js';
import { SmtpProxy } from './smtp-proxy.js';

/** Of the boundaries: all of them take minutes. */
const EVERY = process.env.TEST_FULL === '1' ? 1 : 10;
/** Questions of jobs which tenants have work: they come at any time, and nothing hangs on them. */
const LOOKING = /^\s*(WITH RECURSIVE|SELECT DISTINCT tenant_id)/;

let mails: MailServer;
let database: TestDatabase;
let postgres: PostgresProxy;
let smtp: SmtpProxy;

/** Counts what the service exchanges with Postgres and with the mail server, and acts at one point of that. */
class Course {
  passed = 0;
  hasActed = false;
  private at = Infinity;
  private act: () => Promise<unknown> = async () => undefined;

  /** From now on the course begins; at its `at`th boundary `act` happens, and what would have passed there is lost. */
  begin(at = Infinity, act: () => Promise<unknown> = async () => undefined): void {
    this.passed = 0;
    this.at = at;
    this.hasActed = false;
    this.act = () => act().finally(() => (this.hasActed = true));
  }

  readonly step = (): 'pass' | Promise<'cut'> => {
    this.passed += 1;
    return this.passed === this.at ? this.act().then(() => 'cut' as const) : 'pass';
  };
}
const course = new Course();

/** Before the first of a statement has reached Postgres, and before its answer has reached the service. */
function isBoundary({ side, type, sql, first }: WireMessage): boolean {
  if (sql === undefined || LOOKING.test(sql)) return false;
  return side === 'frontend' ? first === true : type === 'CommandComplete';
}

beforeAll(async () => {
  mails = await MailServer.start();
  database = await TestDatabase.create();
  postgres = await PostgresProxy.start(database.url);
  smtp = await SmtpProxy.start(mails.port);
  postgres.onFrontend = postgres.onBackend = (message) => (isBoundary(message) ? course.step() : 'pass');
  smtp.onPiece = () => course.step();
});
afterEach(() => ServiceProcess.killAll());
afterAll(async () => {
  await smtp.stop();
  await postgres.stop();
  await database.drop();
  await mails.stop();
});

/** Whether the course has come to its end. Meanwhile leases lapse after half a second, and nothing waits for its turn. */
async function isOver(): Promise<boolean> {
  for (const table of ['outbox', 'notifications']) {
    await database.query(
      `UPDATE ${table} SET lease_until = least(lease_until, statement_timestamp() + interval '500 ms'),
                           available_at = least(available_at, statement_timestamp())
       WHERE lease_until > statement_timestamp() + interval '500 ms' OR available_at > statement_timestamp()`,
    );
  }
  const published = await database.count('outbox', 'published_at IS NOT NULL');
  const sent = await database.count('notifications', `status = 'sent'`);
  return published === 1 && sent === 1;
}

/** One payment from its event to its mail, whatever happens in between. */
async function mailOnce(at?: number, act?: () => Promise<unknown>): Promise<void> {
  await database.clear();
  mails.reset();
  course.begin(at, act);
  await tellOfPayment(database);
  await waitFor(isOver, { description: `the mail in spite of boundary ${at}`, timeoutMs: 40_000 });
  // The last answers are still on their way when everything they tell of is there to be seen.
  if (act) await waitFor(() => course.hasActed, { timeoutMs: 5_000 }).catch(() => undefined);
}

async function expectMailedOnce(at: number): Promise<void> {
  const [row] = await database.query<{ message_id: string }>('SELECT message_id FROM notifications');
  expect([at, mails.messageIds]).toEqual([at, [row!.message_id]]);
  // What was lost around one boundary is repeated once at the most.
  expect([at, mails.mails.length <= 2]).toEqual([at, true]);
  expect([at, await database.count('notifications'), await applied(database)]).toEqual([at, 1, 1]);
}

/** How many boundaries an undisturbed course has. */
async function boundaries(): Promise<number> {
  await mailOnce(); // connections are made
  await mailOnce();
  return course.passed;
}

describe('one payment is one mail', () => {
  it('when the connection is cut at any boundary of the consumer and of the sender', async () => {
    const app = await TestApp.start({ SMTP_URL: smtp.url }, { database, databaseUrl: postgres.url });
    try {
      const count = await boundaries();
      expect(count).toBeGreaterThan(30);
      let cut = 0;
      for (let at = 1; at <= count; at += EVERY) {
        await mailOnce(at, async () => (cut += 1));
        await expectMailedOnce(at);
      }
      expect(cut).toBeGreaterThanOrEqual(Math.ceil(count / EVERY) - 1);
    } finally {
      await app.app.close();
    }
  }, 600_000);

  it('when the process is killed at any boundary of the consumer and of the sender', async () => {
    let service = await start();
    const count = await boundaries();
    let kills = 0;
    for (let at = 2; at <= count; at += EVERY) {
      const next = { started: Promise.resolve(service) };
      await mailOnce(at, async () => {
        kills += 1;
        await service.kill();
        next.started = start();
      });
      service = await next.started;
      await expectMailedOnce(at);
    }
    expect(kills).toBeGreaterThanOrEqual(Math.ceil((count - 1) / EVERY) - 1);
  }, 1_800_000);
});

const start = () => ServiceProcess.start({ DATABASE_URL: postgres.url, SEED_DEMO_TENANTS: 'true', SMTP_URL: smtp.url });
