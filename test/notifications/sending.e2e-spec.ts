import { createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { NotificationSender } from '../../src/notifications/notification-sender.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';
import { MailServer, reply } from './mail-server.js';
import { makeDue, notifications, reached, tellOfPayment } from './paid-events.js';

let mails: MailServer;
let app: TestApp;
beforeAll(async () => {
  mails = await MailServer.start();
  app = await TestApp.start({ SMTP_URL: `${mails.url}?from=receipts@shop.example` });
});
afterAll(async () => {
  await app.stop();
  await mails.stop();
});
beforeEach(async () => {
  await app.database.clear();
  mails.reset();
});

const rows = () => notifications(app.database);
const only = async () => (await rows())[0]!;
const delayed = async (attempts: number) => {
  await waitFor(async () => (await only())?.attempts === attempts && (await only()).lease_token === null, {
    description: `attempt ${attempts} to have ended`,
  });
  return only();
};

describe('a server that refuses', () => {
  it.each([
    ['the recipient', () => (mails.onRecipient = refuse(550, '5.1.1 <bad@shop.example>: unknown'))],
    ['the mail', () => (mails.onMail = ({ to }) => refuse(554, '5.7.1 no')(to))],
  ])('%s for good has its answer noted, and is not asked again', async (_what, arm) => {
    arm();
    await tellOfPayment(app.database, { receiptEmail: 'bad@shop.example' });
    await tellOfPayment(app.database);
    await reached(app.database, 'failed', 1);
    await reached(app.database, 'sent', 1);
    await app.app.get(NotificationSender).run();

    const failed = (await rows()).find(({ status }) => status === 'failed')!;
    expect(failed).toMatchObject({ attempts: 1, reason: expect.stringMatching(/55[04] 5\.[17]\.1/) });
    expect(mails.mails.map(({ to }) => to)).toEqual(['ada@shop.example']);
  });

  it.each([
    ['the recipient', () => (mails.onRecipient = refuse(451))],
    ['the mail', () => (mails.onMail = ({ to }) => refuse(452)(to))],
  ])('%s for now is asked again, later each time, and others do not wait', async (_what, arm) => {
    arm();
    await tellOfPayment(app.database, { receiptEmail: 'bad@shop.example' });
    const first = await delayed(1);
    expect([first.status, first.due_in > 3_000, first.due_in <= 5_000]).toEqual(['due', true, true]);
    await tellOfPayment(app.database);
    await mails.took(1);
    await makeDue(app.database);
    const second = await delayed(2);
    expect([second.status, second.due_in > 8_000, second.due_in <= 10_000]).toEqual(['due', true, true]);

    mails.onRecipient = () => undefined;
    mails.onMail = () => undefined;
    await makeDue(app.database);
    await reached(app.database, 'sent', 2);
    expect(await rows()).toContainEqual(expect.objectContaining({ attempts: 3, status: 'sent', reason: null }));
    expect(mails.messageIds).toHaveLength(2);
  });

  it('every time is given up after the last attempt', async () => {
    mails.onRecipient = refuse(451, '4.3.0 not now');
    await tellOfPayment(app.database, { receiptEmail: 'bad@shop.example' });
    await delayed(1);
    await app.database.query('UPDATE notifications SET attempts = 31, available_at = statement_timestamp()');
    await reached(app.database, 'failed', 1);

    expect(await only()).toMatchObject({ attempts: 32, reason: expect.stringContaining('451 4.3.0') });
  });

  function refuse(code: number, text?: string): (to: string) => void {
    return (to) => {
      if (to === 'bad@shop.example') throw reply(code, text);
    };
  }
});

describe('a server that cannot be had', () => {
  const started: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const stop of started.splice(0).reverse()) await stop();
  });

  /** The service with another server. */
  async function startWith(url: string): Promise<TestApp> {
    const other = await TestApp.start({ SMTP_URL: url });
    started.push(() => other.stop());
    return other;
  }

  it('at all costs an attempt and no mail: it goes out when the server is there', async () => {
    const later = await MailServer.start();
    await later.stop();
    const other = await startWith(later.url);
    await tellOfPayment(other.database);
    await waitFor(async () => (await notifications(other.database))[0]?.reason, { description: 'an attempt' });
    expect((await notifications(other.database))[0]).toMatchObject({ status: 'due', attempts: 1 });

    const back = await MailServer.start(later.port);
    started.push(() => back.stop());
    await makeDue(other.database);
    await reached(other.database, 'sent', 1);
    expect(back.mails).toHaveLength(1);
  });

  it('because it refuses the login says nothing about the mail, though its answer is a 535', async () => {
    mails.onLogin = (_user, password) => {
      if (password !== 'p@ss:w/rd') throw reply(535, 'no');
    };
    const [wrong, right] = ['wrong', 'p%40ss%3Aw%2Frd'].map((password) => mails.url.replace('//', `//me:${password}@`));
    const other = await startWith(wrong!);
    await tellOfPayment(other.database);
    await waitFor(async () => (await notifications(other.database))[0]?.reason, { description: 'an attempt' });
    expect((await notifications(other.database))[0]).toMatchObject({ status: 'due', attempts: 1 });

    const able = await TestApp.start({ SMTP_URL: right! }, { database: other.database });
    started.push(() => able.app.close());
    await makeDue(other.database);
    await mails.took(1);
  });

  it('because it vanishes with the mail in its hands gets the same mail again', async () => {
    let asked = 0;
    mails.onMail = async () => {
      asked += 1;
      if (asked > 1) return;
      await mails.dropConnections();
    };
    await tellOfPayment(app.database);
    const { message_id: messageId } = await delayed(1);
    await makeDue(app.database);
    await reached(app.database, 'sent', 1);

    expect(mails.offered).toBe(2);
    expect(mails.messageIds).toEqual([messageId]);
    expect(mails.mails[0]!.header).toBe(mails.mails.at(-1)!.header);
  });

  it('because it says nothing is given up in time', async () => {
    const silent = createServer();
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    started.push(async () => silent.close());
    const { port } = silent.address() as { port: number };
    const other = await startWith(`smtp://127.0.0.1:${port}`);
    await tellOfPayment(other.database);
    await waitFor(async () => (await notifications(other.database))[0]?.reason, {
      description: 'the attempt to end',
      timeoutMs: 20_000,
    });

    expect((await notifications(other.database))[0]).toMatchObject({ status: 'due', attempts: 1 });
  });
});

describe('a slow recipient', () => {
  it('holds up no other, of the same tenant or of another', async () => {
    let release = () => undefined as void;
    const slow = new Promise<void>((resolve) => (release = resolve));
    mails.onRecipient = (to) => (to === 'slow@shop.example' ? slow : undefined);
    for (let n = 0; n < 5; n++) await tellOfPayment(app.database, { receiptEmail: 'slow@shop.example' });
    await waitFor(async () => (await app.database.count('notifications', 'lease_token IS NOT NULL')) === 5);
    for (const { tenantId } of [ACME, GLOBEX, ACME]) await tellOfPayment(app.database, {}, tenantId);
    await reached(app.database, 'sent', 3);
    expect(await app.database.count('notifications', `recipient = 'slow@shop.example' AND status = 'due'`)).toBe(5);

    release();
    await reached(app.database, 'sent', 8);
    expect(mails.offered).toBe(8);
  });
});

describe('two replicas', () => {
  it('send each mail once between them', async () => {
    const other = await TestApp.start({ SMTP_URL: mails.url }, { database: app.database });
    try {
      const fromBoth = new Set<string>();
      mails.onMail = ({ from }) => void fromBoth.add(from);
      for (let n = 0; n < 60; n++) await tellOfPayment(app.database);
      await reached(app.database, 'sent', 60);

      expect([mails.offered, mails.messageIds.length]).toEqual([60, 60]);
      expect(await app.database.count('notifications', 'attempts = 1')).toBe(60);
      expect(fromBoth.size).toBe(2);
    } finally {
      await other.app.close();
    }
  });

  it('of which one stalls past its lease: the other sends, and what the first says then counts no more', async () => {
    let release = () => undefined as void;
    const stalled = new Promise<void>((resolve) => (release = resolve));
    mails.onMail = async () => {
      if (mails.offered > 1) return;
      await stalled;
      throw reply(554, 'too late to matter');
    };
    await tellOfPayment(app.database);
    await waitFor(() => mails.offered === 1, { description: 'the first to be on its way' });
    const other = await TestApp.start({ SMTP_URL: mails.url }, { database: app.database });
    try {
      await app.database.query(`UPDATE notifications SET lease_until = '-infinity'`);
      await reached(app.database, 'sent', 1);
      release();
      await app.app.get(NotificationSender).run();

      expect(await rows()).toEqual([expect.objectContaining({ status: 'sent', attempts: 2, reason: null })]);
      expect(mails.messageIds).toEqual([(await only()).message_id]);
    } finally {
      release();
      await other.app.close();
    }
  });
});

describe('what kills its senders', () => {
  it('is given up in the end without another attempt', async () => {
    mails.onRecipient = () => {
      throw reply(451);
    };
    await tellOfPayment(app.database);
    await delayed(1);
    await app.database.query('UPDATE notifications SET attempts = 32, available_at = statement_timestamp()');
    await reached(app.database, 'failed', 1);

    expect(await only()).toMatchObject({ attempts: 33, reason: 'Its senders have ended in the middle of it' });
    expect(mails.offered).toBe(0);
  });
});
