import { Inject, Injectable, Logger } from '@nestjs/common';
import type { QueryResultRow } from 'pg';
import { AcrossTenants } from '../database/across-tenants.js';
import type { Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { type Payment, PAYMENT_COLUMNS, type PaymentMethod } from './payment.entity.js';
import { PaymentLedger } from './payment-ledger.js';
import { PAYMENTS_OPTIONS, type PaymentsOptions } from './payments.options.js';
import { PaymentProviders } from './providers/payment-providers.js';
import { type Refund, REFUND_COLUMNS } from './refund.entity.js';
import { RefundLedger } from './refund-ledger.js';

/** Rows of a tenant that are asked for in one run. */
const BATCH = 200;

type AskedRefund = Refund & { readonly method: PaymentMethod; readonly chargeRef: string };

/**
 * Asks a provider once more, one by one, for what no operation waits for any longer and what may still change: refunds
 * on their way, and what was given up at a provider that gives no list of what it has made.
 */
@Injectable()
export class AskingAgain {
  private readonly logger = new Logger(AskingAgain.name);

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    private readonly payments: PaymentLedger,
    private readonly refunds: RefundLedger,
    private readonly providers: PaymentProviders,
    @Inject(PAYMENTS_OPTIONS) private readonly options: PaymentsOptions,
  ) {}

  /** @throws LookUpFailedError */
  async run(): Promise<void> {
    const lately = `sent_at > statement_timestamp() - interval '${3 * this.options.giveUp} milliseconds'`;
    await this.askForPayments(
      `payments.status = 'failed' AND payments.method = 'bank_transfer' AND payments.${lately}`,
    );
    await this.askForRefunds(`(refunds.status = 'pending' AND refunds.provider_ref IS NOT NULL)
      OR (refunds.status = 'failed' AND refunds.provider_ref IS NULL AND refunds.${lately})`);
  }

  private async askForPayments(which: string): Promise<void> {
    const select = `SELECT ${PAYMENT_COLUMNS} FROM payments WHERE payments.tenant_id = $1 AND ${which}`;
    for await (const { tenantId, id: paymentId, method, sentAt: since } of this.rows<Payment>(
      `SELECT DISTINCT tenant_id FROM payments WHERE ${which}`,
      `${select} ORDER BY payments.sent_at DESC LIMIT ${BATCH}`,
    )) {
      const effects = await this.providers.for(method).findCharges({ tenantId, paymentId, since });
      if (effects.length === 0) continue;
      await this.settle(tenantId, (transaction) => this.payments.settle(transaction, paymentId, effects));
    }
  }

  private async askForRefunds(which: string): Promise<void> {
    for await (const refund of this.rows<AskedRefund>(
      `SELECT DISTINCT tenant_id FROM refunds WHERE ${which}`,
      `SELECT ${REFUND_COLUMNS}, payments.method, payments.provider_ref AS "chargeRef"
       FROM refunds JOIN payments ON payments.tenant_id = $1 AND payments.id = refunds.payment_id
       WHERE refunds.tenant_id = $1 AND (${which}) ORDER BY refunds.sent_at DESC LIMIT ${BATCH}`,
    )) {
      const { tenantId, paymentId, id: refundId, chargeRef, providerRef, sentAt: since } = refund;
      const reference = providerRef === null ? {} : { reference: providerRef };
      const query = { tenantId, paymentId, refundId, chargeRef, since, ...reference };
      const effects = await this.providers.for(refund.method).findRefunds(query);
      if (effects.length === 0) continue;
      await this.settle(tenantId, (transaction) => this.refunds.settle(transaction, paymentId, refundId, effects));
    }
  }

  /** What does not fit yet is asked for again, and keeps nothing else from the books. */
  private async settle(tenantId: string, work: (transaction: Transaction) => Promise<unknown>): Promise<void> {
    await this.unitOfWork.run(tenantId, work).catch((error: unknown) => {
      this.logger.warn(`late_effect_not_written: ${String(error)}`);
    });
  }

  private async *rows<Row extends QueryResultRow>(tenantsWithAny: string, select: string): AsyncGenerator<Row> {
    const tenants = await this.acrossTenants.query<{ tenant_id: string }>(tenantsWithAny);
    for (const { tenant_id: tenantId } of tenants) {
      yield* await this.unitOfWork.read(tenantId, (manager) => manager.query<Row[]>(select, [tenantId]));
    }
  }
}
