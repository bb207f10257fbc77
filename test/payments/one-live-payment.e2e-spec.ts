import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { UnitOfWork } from '../../src/database/unit-of-work.js';
import { insertPayment } from '../../src/payments/payment-table.js';
import { ACME } from '../support/test-app.js';
import { PayingApp } from './paying.js';

const ATTEMPTS = 20;

let app: PayingApp;
beforeAll(async () => (app = await PayingApp.start()));
afterAll(() => app.stop());
beforeEach(() => app.clear());

/** A code path that neither holds the order nor looks whether it has a payment. */
const insert = (orderId: string) =>
  app.service.app.get(UnitOfWork).run(ACME.tenantId, (transaction) =>
    insertPayment(transaction, {
      ...{ id: randomUUID(), orderId, amount: 900, currency: 'EUR', method: 'card' },
      ...{ receiptEmail: null, operationId: randomUUID() },
    }),
  );
const end = (id: string, status: string) =>
  app.service.database.query('UPDATE payments SET status = $2 WHERE id = $1', [id, status]);
const payments = () => app.service.database.count('payments');

describe('M22: an order', () => {
  it('has one live payment at most, whoever writes it', async () => {
    const orderId = await app.order();
    const inserted = await Promise.all(Array.from({ length: ATTEMPTS }, () => insert(orderId)));
    expect(inserted.filter((payment) => payment !== undefined)).toHaveLength(1);
    expect(await payments()).toBe(1);

    const copy = `INSERT INTO payments (tenant_id, id, order_id, status, amount, currency, method, operation_id, version)
      SELECT tenant_id, gen_random_uuid(), order_id, $1::text, amount, currency, method, operation_id, 1 FROM payments`;
    for (const status of ['pending', 'succeeded']) {
      const written = app.service.database.query(copy, [status]);
      await expect(written).rejects.toMatchObject({ code: '23505', constraint: 'payments_one_live_per_order' });
    }
    expect(await payments()).toBe(1);
  });

  it.each(['declined', 'failed'])('may have another one when the first is %s', async (status) => {
    const orderId = await app.order();
    await end((await insert(orderId))!.id, status);
    expect(await insert(orderId)).toBeDefined();
    expect(await insert(orderId)).toBeUndefined();
    expect(await payments()).toBe(2);
  });

  it('has no other one when the first has succeeded', async () => {
    const orderId = await app.order();
    await end((await insert(orderId))!.id, 'succeeded');
    expect(await insert(orderId)).toBeUndefined();
    expect(await payments()).toBe(1);
  });
});
