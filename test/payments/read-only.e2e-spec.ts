import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { call } from '../support/http-proxy.js';
import { CARD } from './paying.js';
import { PayingProcesses } from './paying-processes.js';
import {
  BANK_TRANSFER,
  CARD_PAYMENT,
  CARD_REFUND,
  expectOneOutcome,
  expectReplay,
  finalAnswer,
} from './struck-courses.js';

const RETRIES = 100;

describe('M21: the database can only be read from the moment on that a call goes out', () => {
  let processes: PayingProcesses;
  let amount = 1_000;
  beforeAll(async () => (processes = await PayingProcesses.start({ IDEMPOTENCY_WAIT: '0ms' })), 60_000);
  afterAll(() => processes.stop());

  /** As after a failover to a standby: nobody's session goes on, and new ones can only read. */
  const setReadOnly = async (readOnly: boolean) => {
    const database = new URL(processes.database.url).pathname.slice(1);
    // The session of the test is told itself: it may be one of those that only read.
    await processes.database.query(
      `SET default_transaction_read_only = off;
       ALTER DATABASE ${database} ${readOnly ? 'SET default_transaction_read_only = on' : 'RESET default_transaction_read_only'};
       SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'orders-service'`,
    );
  };

  it.each([CARD_PAYMENT, CARD_REFUND, BANK_TRANSFER])(
    '$name moves the money once, whoever asks how often',
    async (course) => {
      amount += 1;
      const request = await course.prepare(processes, amount);
      const unpaid = await processes.order(amount + 1_000);
      const charge = processes.provider.hold(call.isMade('POST', course.call.path));
      const first = processes.send(processes.owner, request);
      await charge.reached;
      await setReadOnly(true);
      charge.release();
      expect((await first).status).toBe(503);
      const before = (await processes.sandbox.calls()).length;

      const retries = await Promise.all(
        Array.from({ length: RETRIES }, (_, n) =>
          processes.send(n % 2 === 0 ? processes.owner : processes.other, request),
        ),
      );
      for (const { status, headers } of retries) {
        expect([409, 503]).toContain(status);
        expect(Number(headers['retry-after'])).toBeGreaterThan(0);
      }
      for (const process of [processes.owner, processes.other]) {
        const another = { path: `/v1/orders/${unpaid}/payments`, body: CARD, key: randomUUID() };
        const refused = await processes.send(process, another);
        expect([refused.status, refused.json.code]).toEqual([503, 'service-unavailable']);
        expect((await processes.get(process, `/v1/orders/${unpaid}`)).json).toMatchObject({ status: 'pending' });
      }
      expect((await processes.sandbox.calls()).length).toBe(before);
      expect((await processes.sandbox.effects()).filter((effect) => effect.amount === amount + 1_000)).toEqual([]);

      await setReadOnly(false);
      const finished = await finalAnswer(processes, processes.owner, request);
      expect(finished.status).toBe(201);
      expect(await expectOneOutcome(processes, course, amount, request, finished)).toBe('moved');
      expect((await processes.sandbox.calls()).length).toBe(before);
      await expectReplay(processes, processes.other, request, finished);
    },
  );
});
