import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { newOrder } from '../support/api-client.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { ServiceProcess } from '../support/service-process.js';
import { ACME } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { MailServer, reply } from './mail-server.js';
import { applied, lapseLeases, notifications, reached, tellOfPayment } from './paid-events.js';

const SECRET = 'hunter2';
const headers = { Authorization: `Bearer ${ACME.key}` };

let mails: MailServer;
let database: TestDatabase;
let proxy: PostgresProxy;
beforeAll(async () => {
  mails = await MailServer.start();
  database = await TestDatabase.create();
  proxy = await PostgresProxy.start(database.url);
});
beforeEach(async () => {
  await database.clear();
  mails.reset();
});
afterEach(() => ServiceProcess.killAll());
afterAll(async () => {
  await proxy.stop();
  await database.drop();
  await mails.stop();
});

const start = (environment: Record<string, string> = {}) =>
  ServiceProcess.start({
    ...{ DATABASE_URL: proxy.url, SEED_DEMO_TENANTS: 'true', SMTP_URL: mails.url.replace('//', `//me:${SECRET}@`) },
    ...environment,
  });

describe('a process that is killed', () => {
  it('between sending and marking leaves a repeat that carries the same Message-ID', async () => {
    const first = await start();
    const killed = proxy.once(statement.starts(/UPDATE notifications SET lease_token = NULL/), async () => {
      await first.kill();
      return 'cut' as const;
    });
    await tellOfPayment(database);
    await killed;
    expect(mails.mails).toHaveLength(1);
    expect(await notifications(database)).toMatchObject([{ status: 'due', attempts: 1 }]);

    await start();
    await lapseLeases(database);
    await reached(database, 'sent', 1);
    expect(mails.mails).toHaveLength(2);
    expect(mails.messageIds).toEqual([(await notifications(database))[0]!.message_id]);
    const [one, other] = mails.mails;
    expect(other).toEqual(one); // the whole mail, its date included
  });

  it('before its consumer commits leaves no intent, and the event comes again', async () => {
    const first = await start();
    const killed = proxy.once(statement.isAnswered(/INSERT INTO notifications/), async () => {
      await first.kill();
      return 'cut' as const;
    });
    await tellOfPayment(database);
    await killed;
    await waitFor(async () => (await applied(database)) === 0);
    expect(await notifications(database)).toEqual([]);

    await start();
    await lapseLeases(database);
    await reached(database, 'sent', 1);
    expect(mails.mails).toHaveLength(1);
  });
});

describe('SIGTERM in the middle of sending', () => {
  it('lets the mail go out and be marked, and begins no other', async () => {
    const service = await start();
    let release = () => undefined as void;
    const slow = new Promise<void>((resolve) => (release = resolve));
    mails.onMail = () => slow;
    await tellOfPayment(database);
    await waitFor(() => mails.offered === 1, { description: 'the mail to be on its way' });
    service.signal('SIGTERM');
    await waitFor(() => service.output.includes('SIGTERM received'), { description: 'the signal to arrive' });
    release();

    expect(await service.exited).toEqual({ code: 0, signal: null });
    expect(await notifications(database)).toMatchObject([{ status: 'sent', attempts: 1 }]);
    expect(mails.mails).toHaveLength(1);
  });

  it('waits for no server that says nothing, and leaves the mail to the next one at once', async () => {
    const service = await start({ SHUTDOWN_GRACE: '4s' });
    mails.onRecipient = () => new Promise(() => undefined);
    await tellOfPayment(database);
    await waitFor(async () => (await notifications(database))[0]?.lease_token, { description: 'it to be taken' });
    service.signal('SIGTERM');

    expect(await service.exited).toEqual({ code: 0, signal: null });
    expect(await notifications(database)).toMatchObject([{ status: 'due', attempts: 1, lease_token: null }]);
    expect(mails.offered).toBe(0);
  });
});

describe('the log', () => {
  it('tells of trouble without an address and without the password', async () => {
    mails.onRecipient = (to) => {
      throw reply(to.startsWith('bad') ? 550 : 451, `5.1.1 <${to}>: no such person`);
    };
    const service = await start({ LOG_LEVEL: 'trace' });
    await tellOfPayment(database, { receiptEmail: 'bad.person@shop.example' });
    await tellOfPayment(database, { receiptEmail: 'busy.person@shop.example' });
    await reached(database, 'failed', 1);
    await waitFor(() => /notification_delayed/.test(service.output), { description: 'the delay to be told' });

    expect(service.output).toMatch(/notification_failed: [0-9a-f-]{36}: EENVELOPE 550 5\.1\.1/);
    expect(service.output).not.toMatch(/person|shop\.example/);
    expect(service.output).not.toContain(SECRET);
  });

  it('says once that mail is off', async () => {
    const service = await start({ SMTP_URL: '' });
    expect(service.output.match(/Mail is off/g)).toHaveLength(1);
    expect(service.output).toMatch(/mails +none: SMTP_URL is not set/);
  });
});

describe('on the embedded database', () => {
  let directory: string;
  beforeEach(async () => (directory = await mkdtemp(join(tmpdir(), 'orders-mail-'))));
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('mails are files beside it, one each, which only the service may read', async () => {
    const service = await ServiceProcess.start({
      EMBEDDED_DATABASE_DIR: directory,
      SANDBOX_PORT: '0',
      STRIPE_API_BASE: '',
    });
    try {
      const order = await service.request('POST', '/v1/orders', {
        headers: { ...headers, 'Idempotency-Key': randomUUID() },
        body: newOrder({ currency: 'JPY' }),
      });
      const paid = await service.request('POST', `/v1/orders/${order.json.id}/payments`, {
        headers: { ...headers, 'Idempotency-Key': randomUUID() },
        body: { method: 'card', paymentMethod: 'pm_card_visa', receiptEmail: 'ada@shop.example' },
      });
      expect([order.status, paid.status]).toEqual([201, 201]);
      const folder = join(directory, 'mail');
      const files = () => readdir(folder).catch(() => [] as string[]);
      await waitFor(async () => (await files()).some((name) => name.endsWith('.eml')), { description: 'a mail' });

      const [name, ...others] = await files();
      expect([name, others]).toEqual([expect.stringMatching(/^[0-9a-f-]{36}\.eml$/), []]);
      const text = await readFile(join(folder, name!), 'utf8');
      expect(text).toContain('To: ada@shop.example');
      expect(text).toContain(`Message-ID: <${name!.replace('.eml', '')}@orders>`);
      expect(text).toContain('JPY 900');
      expect(text).toContain(paid.json.id);
      expect([(await stat(folder)).mode & 0o777, (await stat(join(folder, name!))).mode & 0o777]).toEqual([
        0o700, 0o600,
      ]);
      expect(service.output).toContain(`files in ${folder}`);
    } finally {
      expect(await service.stop()).toBe(0);
    }
  });
});
