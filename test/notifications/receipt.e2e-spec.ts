import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Consumers } from '../../src/messaging/consumers.js';
import { NotificationSender } from '../../src/notifications/notification-sender.js';
import { CARD, PayingApp } from '../payments/paying.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';
import { waitFor } from '../support/wait-for.js';
import { MailServer } from './mail-server.js';
import { applied, notifications, reached, tellOfPayment } from './paid-events.js';

const EMAIL = 'ada@shop.example';

let mails: MailServer;
let app: PayingApp;
beforeAll(async () => {
  mails = await MailServer.start();
  app = await PayingApp.start({ SMTP_URL: mails.url });
});
afterAll(async () => {
  await app.stop();
  await mails.stop();
});
beforeEach(async () => {
  await app.clear();
  mails.reset();
});

/** Every event so far has been delivered. */
const delivered = (events: number) =>
  waitFor(async () => (await app.database.count('outbox', 'published_at IS NOT NULL')) === events, {
    description: `${events} events to be delivered`,
    timeoutMs: 20_000,
  });

describe('a payment that succeeds', () => {
  it('is followed by one receipt to the address that it gave, promptly', async () => {
    const { id, orderId } = await app.paid({ ...CARD, receiptEmail: EMAIL });
    await mails.took(1);
    await reached(app.database, 'sent', 1);

    const [mail] = mails.mails;
    const [row] = await notifications(app.database);
    expect([mail!.to, mail!.messageId]).toEqual([EMAIL, `<${row!.id}@orders>`]);
    expect(row).toMatchObject({ status: 'sent', attempts: 1, reason: null, lease_token: null });
    expect(mail!.header).toMatch(/^Subject: Receipt for your payment of EUR 9\.00$/m);
    expect(mail!.header).toMatch(/^Auto-Submitted: auto-generated$/im);
    expect(mail!.header).toMatch(/^Content-Type: text\/plain/m);
    for (const part of ['EUR 9.00', id, orderId]) expect(mail!.text).toContain(part);
    expect(mails.mails).toHaveLength(1);
  });

  it('is followed by none where it gave no address', async () => {
    await app.paid(CARD);
    await delivered(2);

    expect(await notifications(app.database)).toEqual([]);
    expect(await applied(app.database)).toBe(1);
    expect(mails.offered).toBe(0);
  });

  it('is followed by none when it was declined', async () => {
    const declined = { method: 'card', paymentMethod: 'pm_card_visa_chargeDeclined', receiptEmail: EMAIL };
    expect((await app.pay(await app.order(), declined)).status).toBe(402);
    await delivered(2);

    expect(await notifications(app.database)).toEqual([]);
  });
});

describe('an event that comes again', () => {
  it('brings no second mail, however often, nor when the inbox has forgotten it', async () => {
    await tellOfPayment(app.database);
    await mails.took(1);
    await reached(app.database, 'sent', 1);
    for (const forget of [false, false, true, true]) {
      if (forget) await app.database.query('DELETE FROM processed_messages');
      await app.database.query('UPDATE outbox SET published_at = NULL');
      await delivered(1);
      await app.service.app.get(NotificationSender).run();
    }

    expect(await notifications(app.database)).toHaveLength(1);
    expect(mails.offered).toBe(1);
  });

  it('brings no second mail when several replicas relay and send', async () => {
    const { database } = app;
    const replicas = await Promise.all([1, 2].map(() => TestApp.start({ SMTP_URL: mails.url }, { database })));
    try {
      const events: string[] = [];
      for (let n = 0; n < 30; n++) {
        events.push(await tellOfPayment(database, {}, n % 3 === 0 ? GLOBEX.tenantId : ACME.tenantId));
        if (n % 5 === 4) {
          await database.query(`DELETE FROM processed_messages`);
          await database.query('UPDATE outbox SET published_at = NULL');
        }
      }
      await delivered(30);
      await reached(database, 'sent', 30);

      const rows = await notifications(database);
      expect(rows.map((row) => row.event_id).sort()).toEqual([...events].sort());
      expect(mails.mails.map(({ messageId }) => messageId).sort()).toEqual(rows.map((row) => row.message_id).sort());
      expect(mails.offered).toBe(30);
    } finally {
      for (const replica of replicas) await replica.app.close();
    }
  });

  it('can have no second notification of one channel, whoever writes it', async () => {
    await tellOfPayment(app.database);
    await reached(app.database, 'sent', 1);

    await expect(
      app.database.query(
        `INSERT INTO notifications (tenant_id, id, event_id, channel, recipient, content, message_id)
         SELECT tenant_id, gen_random_uuid(), event_id, channel, recipient, content, 'x' FROM notifications`,
      ),
    ).rejects.toMatchObject({ code: '23505', constraint: 'notifications_event_key' });
  });
});

describe('an address', () => {
  it.each([
    ['a header in it', 'ada@shop.example\r\nBcc: eve@evil.example'],
    ['a header in its quoted part', '"a\r\nBcc: eve@evil.example\r\n"@shop.example'],
    ['a line feed at its end', 'ada@shop.example\n'],
    ['a command in it', 'ada@shop.example>\r\nRCPT TO:<eve@evil.example'],
    ['a second one behind it', 'ada@shop.example, eve@evil.example'],
    ['angle brackets', 'Ada <eve@evil.example>'],
    ['a NUL-like control character', 'ada\u0001@shop.example'],
    ['300 characters', `${'a'.repeat(300)}@shop.example`],
    ['none of an address', 'ada'],
    ['another type', 17],
  ])('with %s reaches nobody, and holds up nobody', async (_what, receiptEmail) => {
    await tellOfPayment(app.database, { receiptEmail });
    await tellOfPayment(app.database);
    await reached(app.database, 'sent', 1);
    await reached(app.database, 'failed', 1);

    expect(mails.mails.map(({ to }) => to)).toEqual([EMAIL]);
    expect(mails.mails[0]!.header).not.toMatch(/evil|^Bcc/im);
    const failed = (await notifications(app.database)).find(({ status }) => status === 'failed');
    expect(failed).toMatchObject({ recipient: '', reason: 'The address cannot be used', attempts: 0 });
  });

  it.each([
    ['accents', 'zoë@shop.example'],
    ['a domain in another script', 'ada@例え.example'],
    ['the most characters', `${'a'.repeat(60)}@${Array(3).fill('b'.repeat(60)).join('.')}.example`],
    ['a tag', 'ada+orders@shop.example'],
  ])('with %s is mailed to', async (_what, receiptEmail) => {
    await tellOfPayment(app.database, { receiptEmail });
    await mails.took(1);

    expect(mails.mails[0]!.to).toBe(receiptEmail);
  });
});

describe('without a way for mails', () => {
  it('there is no consumer of payments', async () => {
    const off = await TestApp.start({}, { messaging: {} });
    try {
      const consumers = off.app.get(Consumers).all.map(({ consumer }) => consumer);
      expect(consumers.filter((name) => name.startsWith('notifications.'))).toEqual([]);
      expect(() => off.app.get(NotificationSender)).toThrow();
      await tellOfPayment(off.database);
      expect(await notifications(off.database)).toEqual([]);
    } finally {
      await off.stop();
    }
  });
});
