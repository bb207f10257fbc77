import { Inject, Injectable, Logger } from '@nestjs/common';
import { AcrossTenants } from '../database/across-tenants.js';
import type { Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { askForReview, book, isBooked, withdrawQuestion } from './money-table.js';
import { PaymentLedger } from './payment-ledger.js';
import type { Payment } from './payment.entity.js';
import { findPayment } from './payment-table.js';
import { PAYMENTS_OPTIONS, type PaymentsOptions } from './payments.options.js';
import type { Effect, RefundOrder } from './providers/payment-provider.js';
import { PaymentProviders } from './providers/payment-providers.js';

/** Money that was taken twice, or for a payment that had been given up and paid by another. */
interface SurplusCharge {
  readonly id: string;
  readonly paymentId: string;
  readonly chargeRef: string;
  readonly amount: number;
  readonly currency: string;
  readonly sentAt: Date;
  /** Whether a call may have been made for it before. */
  readonly doubtful: boolean;
  readonly age: number;
}

/**
 * Gives surplus charges back, each once. The same discipline as for any movement: the intent is committed before the
 * call, and whoever finds one looks before it calls again. Only the holder of the row's lease calls.
 */
@Injectable()
export class SurplusCharges {
  private readonly logger = new Logger(SurplusCharges.name);

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    private readonly ledger: PaymentLedger,
    private readonly providers: PaymentProviders,
    @Inject(PAYMENTS_OPTIONS) private readonly options: PaymentsOptions,
  ) {}

  /** The tenants that are owed something. */
  async tenants(): Promise<string[]> {
    const rows = await this.acrossTenants.query<{ tenant_id: string }>(
      `SELECT DISTINCT tenant_id FROM surplus_charges
       WHERE status <> 'returned' AND coalesce(lease_until, '-infinity') <= statement_timestamp()`,
    );
    return rows.map((row) => row.tenant_id);
  }

  /** Gives back what the tenant is owed, or finds out that it was. */
  async giveBack(tenantId: string): Promise<void> {
    for (let next = await this.take(tenantId); next; next = await this.take(tenantId)) {
      await this.settleAtProvider(tenantId, next);
    }
  }

  /**
   * Writes down what became of giving a surplus charge back.
   *
   * @param of `id`: of the surplus charge, which the provider keeps as that of the refund; `chargeRef`: a person has given
   *   back what the provider knows by that name, or a part of it
   * @returns whether it is about a surplus charge
   */
  async settle(
    transaction: Transaction,
    paymentId: string,
    of: { readonly id: string } | { readonly chargeRef: string },
    effect: Effect,
  ): Promise<boolean> {
    const held = await this.hold(transaction, paymentId, of);
    if (!held) return false;
    const { payment, surplus } = held;
    const isReturned = await isBooked(transaction, payment, 'refund', effect.reference);
    if (effect.state === 'succeeded' && !isReturned) await this.returned(transaction, held, effect);
    if (effect.state === 'failed' && isReturned) await this.returnFailed(transaction, payment, surplus, effect);
    return true;
  }

  /**
   * Writes down what a person has found out: it was given back, under that name at the provider.
   *
   * @returns whether that is news
   */
  async returnedByHand(
    transaction: Transaction,
    paymentId: string,
    { id, reference }: { readonly id: string; readonly reference: string },
  ): Promise<boolean> {
    const held = await this.hold(transaction, paymentId, { id });
    if (!held || (await isBooked(transaction, held.payment, 'refund', reference))) return false;
    const { amount, currency } = held.surplus;
    await this.returned(transaction, held, { reference, state: 'succeeded', amount, currency, createdAt: new Date() });
    return true;
  }

  /**
   * Lets the next turn call again, because a person has found out that no call has moved the money or will.
   *
   * @returns whether there was a call to doubt
   */
  async callAgain(transaction: Transaction, id: string): Promise<boolean> {
    const doubted = await transaction.query(
      `UPDATE surplus_charges SET status = 'due', sent_at = NULL, lease_until = NULL
       WHERE tenant_id = $1 AND id = $2 AND status = 'sent' RETURNING id`,
      [transaction.tenantId, id],
    );
    return doubted.length > 0;
  }

  /** The payment's rows first, as everybody does. */
  private async hold(
    transaction: Transaction,
    paymentId: string,
    of: { readonly id: string } | { readonly chargeRef: string },
  ): Promise<HeldSurplus | undefined> {
    const held = await this.ledger.hold(transaction, paymentId);
    const surplus = held && (await lockSurplus(transaction, paymentId, of));
    return surplus && { payment: held.payment, surplus };
  }

  private async returned(transaction: Transaction, { payment, surplus }: HeldSurplus, effect: Effect): Promise<void> {
    await book(transaction, payment, 'refund', effect, { surplus: true });
    await noteReturned(transaction, surplus.id, effect.amount);
    if (effect.amount >= surplus.amount) withdrawQuestion(transaction, surplus.id, 'surplus-not-returned');
  }

  /** The provider has the money again, and would only repeat its answer to whoever asked it once more. */
  private async returnFailed(
    transaction: Transaction,
    payment: Payment,
    { id: subjectId, chargeRef }: LockedSurplus,
    effect: Effect,
  ): Promise<void> {
    if (await isBooked(transaction, payment, 'refund_reversal', effect.reference)) return;
    await book(transaction, payment, 'refund_reversal', effect, { surplus: true });
    const detail = `The surplus charge ${chargeRef} was given back by ${effect.reference}, which has failed (${effect.code ?? 'no code'}).`;
    await askForReview(transaction, payment.id, { subjectId, reason: 'surplus-not-returned', detail });
  }

  /** Commits the intent to call for the oldest one that nobody works on. */
  private take(tenantId: string): Promise<SurplusCharge | undefined> {
    return this.unitOfWork.run(tenantId, async (transaction) => {
      const [free] = await transaction.query<{ id: string; status: string }>(
        `SELECT id, status FROM surplus_charges
         WHERE tenant_id = $1 AND status <> 'returned' AND coalesce(lease_until, '-infinity') <= statement_timestamp()
         ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`,
        [tenantId],
      );
      if (!free) return undefined;
      const [taken] = await transaction.query<Omit<SurplusCharge, 'doubtful'>>(
        `UPDATE surplus_charges SET
           status = 'sent', sent_at = coalesce(sent_at, statement_timestamp()),
           lease_until = statement_timestamp() + $3::float8 * interval '1 millisecond'
         WHERE tenant_id = $1 AND id = $2
         RETURNING id, payment_id AS "paymentId", charge_ref AS "chargeRef", amount::float8 AS amount, currency,
           sent_at AS "sentAt", extract(epoch FROM statement_timestamp() - sent_at)::float8 * 1000 AS age`,
        [tenantId, free.id, this.options.lease],
      );
      return { ...taken!, doubtful: free.status === 'sent' };
    });
  }

  private async settleAtProvider(tenantId: string, surplus: SurplusCharge): Promise<void> {
    const { id: refundId, paymentId, chargeRef, amount, currency, sentAt: since } = surplus;
    const payment = await this.unitOfWork.read(tenantId, (manager) => findPayment(manager, tenantId, paymentId));
    const provider = this.providers.for(payment!.method);
    const begun = performance.now();
    try {
      const shown = surplus.doubtful
        ? await provider.findRefunds({ tenantId, paymentId, refundId, chargeRef, since })
        : [];
      if (shown.length > 0) return await this.written(tenantId, surplus, shown);
      if (surplus.doubtful && surplus.age > provider.keyWindow / 2)
        return await this.askWhenHopeless(tenantId, surplus);
      if (performance.now() - begun + this.providers.timeout > this.options.lease) return;
      const order = { tenantId, paymentId, operationId: refundId, amount, currency, refundId, chargeRef };
      const answer = await provider.refund({ ...order, key: `surplus-${refundId}-${amount}` } satisfies RefundOrder);
      if (answer.kind === 'effect') await this.written(tenantId, surplus, [answer.effect]);
      else this.logger.warn(`surplus_not_returned_yet: ${chargeRef}: ${answer.kind}`);
      if (answer.kind === 'not-happened' && !surplus.doubtful) await this.untake(tenantId, refundId);
    } catch (error) {
      this.logger.warn(`surplus_not_returned_yet: ${chargeRef}: ${String(error)}`);
    }
  }

  private written(tenantId: string, { id, paymentId }: SurplusCharge, effects: readonly Effect[]): Promise<void> {
    return this.unitOfWork.run(tenantId, async (transaction) => {
      for (const effect of effects) await this.settle(transaction, paymentId, { id }, effect);
    });
  }

  /** The call is proven not to have happened: the next turn may call without looking. */
  private untake(tenantId: string, id: string): Promise<unknown> {
    return this.unitOfWork.run(tenantId, (transaction) =>
      transaction.query(
        `UPDATE surplus_charges SET status = 'due', sent_at = NULL WHERE tenant_id = $1 AND id = $2 AND status = 'sent'`,
        [tenantId, id],
      ),
    );
  }

  private async askWhenHopeless(tenantId: string, { id, paymentId, chargeRef, age }: SurplusCharge): Promise<void> {
    if (age <= this.options.giveUp) return;
    const detail = `The surplus charge ${chargeRef} was to be given back, and the provider shows nothing of it.`;
    await this.unitOfWork.run(tenantId, (transaction) =>
      askForReview(transaction, paymentId, { subjectId: id, reason: 'surplus-not-returned', detail }),
    );
  }
}

interface LockedSurplus {
  readonly id: string;
  readonly chargeRef: string;
  /** What is left to be given back. */
  readonly amount: number;
  readonly currency: string;
}

interface HeldSurplus {
  readonly payment: Payment;
  readonly surplus: LockedSurplus;
}

async function lockSurplus(
  transaction: Transaction,
  paymentId: string,
  of: { readonly id: string } | { readonly chargeRef: string },
): Promise<LockedSurplus | undefined> {
  const [column, value] = 'id' in of ? ['id', of.id] : ['charge_ref', of.chargeRef];
  const [surplus] = await transaction.query<LockedSurplus & Record<string, unknown>>(
    `SELECT id, charge_ref AS "chargeRef", amount::float8 AS amount, currency FROM surplus_charges
     WHERE tenant_id = $1 AND payment_id = $2 AND ${column} = $3 FOR UPDATE`,
    [transaction.tenantId, paymentId, value],
  );
  return surplus;
}

/** What is left to be given back is the row's amount. */
async function noteReturned(transaction: Transaction, id: string, amount: number): Promise<void> {
  await transaction.query(
    `UPDATE surplus_charges SET
       status = CASE WHEN amount <= $3 THEN 'returned' ELSE status END,
       amount = CASE WHEN amount <= $3 THEN amount ELSE amount - $3 END, lease_until = NULL
     WHERE tenant_id = $1 AND id = $2`,
    [transaction.tenantId, id, amount],
  );
}
