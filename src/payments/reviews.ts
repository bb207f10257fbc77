import { Injectable } from '@nestjs/common';
import { AcrossTenants } from '../database/across-tenants.js';
import type { Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { UnfinishedOperations } from '../idempotency/unfinished-operations.js';
import type { Payment } from './payment.entity.js';
import { findPayment } from './payment-table.js';
import { PaymentLedger } from './payment-ledger.js';
import type { Effect } from './providers/payment-provider.js';
import { PAYMENTS_ENDPOINT, REFUNDS_ENDPOINT } from './reconciliation.js';
import type { Refund } from './refund.entity.js';
import { RefundLedger } from './refund-ledger.js';
import { findRefund } from './refund-table.js';
import { Replies } from './replies.js';
import { SurplusCharges } from './surplus-charges.js';

/** A question that only a person can answer. */
export interface Review {
  readonly id: string;
  readonly tenantId: string;
  readonly paymentId: string;
  /** The payment, the refund or the surplus charge that the question is about. */
  readonly subjectId: string;
  readonly reason: string;
  readonly detail: string;
  readonly openedAt: Date;
}

/** What a person has found out: the money moved, under that name at the provider; it did not; or the matter is settled. */
export type Resolution =
  { readonly kind: 'succeeded'; readonly reference: string } | { readonly kind: 'failed' } | { readonly kind: 'noted' };

/** Thrown for a resolution that does not fit; the message is for the terminal. */
export class ReviewError extends Error {
  override readonly name = 'ReviewError';
}

const COLUMNS = `id, tenant_id AS "tenantId", payment_id AS "paymentId", subject_id AS "subjectId", reason, detail,
  opened_at AS "openedAt"`;

/** The list of what a person must decide, and what becomes of a decision: it is written down like any provider's fact. */
@Injectable()
export class Reviews {
  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    private readonly operations: UnfinishedOperations,
    private readonly payments: PaymentLedger,
    private readonly refunds: RefundLedger,
    private readonly surplusCharges: SurplusCharges,
    private readonly replies: Replies,
  ) {}

  /** All open questions, oldest first. */
  async list(): Promise<Review[]> {
    return this.acrossTenants.query<Review & Record<string, unknown>>(
      `SELECT ${COLUMNS} FROM payment_reviews WHERE resolved_at IS NULL ORDER BY opened_at`,
    );
  }

  /**
   * Settles what the question is about, with the waiting key's answer if there is one, and closes it.
   *
   * @throws ReviewError
   */
  async resolve(id: string, resolution: Resolution): Promise<void> {
    const review = (await this.list()).find((open) => open.id === id);
    if (!review) throw new ReviewError(`There is no open review ${id}.`);
    const { tenantId } = review;
    if (resolution.kind !== 'noted') await this.settle(review, resolution);
    await this.unitOfWork.run(tenantId, (transaction) =>
      transaction.query(
        `UPDATE payment_reviews SET resolved_at = statement_timestamp(), resolution = $3
         WHERE tenant_id = $1 AND id = $2 AND resolved_at IS NULL`,
        [tenantId, id, resolution.kind === 'succeeded' ? `succeeded ${resolution.reference}` : resolution.kind],
      ),
    );
  }

  private async settle(review: Review, resolution: Exclude<Resolution, { kind: 'noted' }>): Promise<void> {
    const { tenantId, paymentId, subjectId } = review;
    const found = await this.unitOfWork.read(tenantId, async (manager) => ({
      payment: await findPayment(manager, tenantId, paymentId),
      refund: await findRefund(manager, tenantId, subjectId),
    }));
    const subject = found.refund ?? (subjectId === paymentId ? found.payment : undefined);
    if (!subject) return this.settleSurplus(review, resolution);
    const operation = await this.waiting(tenantId, found.refund ? REFUNDS_ENDPOINT : PAYMENTS_ENDPOINT, subject);
    const write = (transaction: Transaction) =>
      found.refund
        ? this.writeRefund(transaction, found.refund, resolution)
        : this.writePayment(transaction, found.payment!, resolution);
    if (operation) await operation.complete(found.refund ? 'refund_confirmed' : 'charge_confirmed', write);
    else await this.unitOfWork.run(tenantId, write);
  }

  /** Money that was to be given back, and perhaps was. */
  private async settleSurplus(
    { tenantId, paymentId, subjectId: id }: Review,
    resolution: Exclude<Resolution, { kind: 'noted' }>,
  ): Promise<void> {
    const isWritten = await this.unitOfWork.run(tenantId, (transaction) =>
      resolution.kind === 'succeeded'
        ? this.surplusCharges.returnedByHand(transaction, paymentId, { id, reference: resolution.reference })
        : this.surplusCharges.callAgain(transaction, id),
    );
    if (isWritten) return;
    throw new ReviewError(
      resolution.kind === 'succeeded'
        ? `${resolution.reference} is in the books already: name the one by which the money was given back.`
        : 'The call is known to have succeeded at first: give the money back by hand, then resolve it as succeeded.',
    );
  }

  private async waiting(tenantId: string, endpoint: string, { operationId }: Payment | Refund) {
    if (operationId === null) return undefined;
    const [unfinished] = (await this.operations.list(tenantId, endpoint, 10_000)).filter(
      (operation) => operation.operationId === operationId,
    );
    return unfinished && (await this.operations.takeOver(unfinished));
  }

  private async writePayment(transaction: Transaction, payment: Payment, resolution: Resolution) {
    const settled =
      resolution.kind === 'succeeded'
        ? await this.payments.settle(transaction, payment.id, [effectOf(payment, resolution.reference)])
        : await this.payments.giveUp(transaction, payment.id);
    return this.replies.toPayment(settled!);
  }

  private async writeRefund(transaction: Transaction, { id, paymentId, ...refund }: Refund, resolution: Resolution) {
    const settled =
      resolution.kind === 'succeeded'
        ? await this.refunds.settle(transaction, paymentId, id, [effectOf(refund, resolution.reference)])
        : await this.refunds.giveUp(transaction, paymentId, id);
    return this.replies.toRefund(settled!);
  }
}

function effectOf({ amount, currency }: Pick<Payment, 'amount' | 'currency'>, reference: string): Effect {
  return { reference, state: 'succeeded', amount, currency, createdAt: new Date() };
}
