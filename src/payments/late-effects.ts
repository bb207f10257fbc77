import { Inject, Injectable } from '@nestjs/common';
import { AcrossTenants } from '../database/across-tenants.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import type { Payment } from './payment.entity.js';
import { PAYMENT_COLUMNS } from './payment.entity.js';
import { PaymentLedger } from './payment-ledger.js';
import { PAYMENTS_OPTIONS, type PaymentsOptions } from './payments.options.js';
import { ProviderFacts } from './provider-facts.js';
import type { PaymentProvider, ProviderFact } from './providers/payment-provider.js';
import { PaymentProviders, providerOf } from './providers/payment-providers.js';

/** Milliseconds by which each look reaches back before the last one: lists lag, and clocks differ. */
const OVERLAP = 600_000;
/** Given-up payments of a tenant that are asked for in one run. */
const BATCH = 200;

/**
 * Finds what happened at a provider and stands in no book: a second charge for one payment, the call of a stalled owner
 * that landed after its payment was given up. Whatever is found is settled like any fact: booked, or given back.
 */
@Injectable()
export class LateEffects {
  /** Until when each provider's list was read, by this process: at start as far back as anything is left open. */
  private readonly readUntil = new Map<PaymentProvider['name'], number>();

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    private readonly facts: ProviderFacts,
    private readonly ledger: PaymentLedger,
    private readonly providers: PaymentProviders,
    @Inject(PAYMENTS_OPTIONS) private readonly options: PaymentsOptions,
  ) {}

  /** @throws LookUpFailedError */
  async find(): Promise<void> {
    for (const provider of this.providers.all) {
      if (provider.madeSince) await this.readList(provider);
      else await this.askForGivenUp(provider);
    }
  }

  /** Everything that the provider has made since the last look, in whatever order. */
  private async readList(provider: PaymentProvider): Promise<void> {
    const begun = Date.now();
    const since = this.readUntil.get(provider.name) ?? begun - this.options.giveUp;
    for await (const fact of provider.madeSince!(new Date(since - OVERLAP))) {
      if (!ProviderFacts.isOurs(fact) || (await this.isSettled(provider, fact))) continue;
      await this.unitOfWork.run(fact.tenantId, (transaction) => this.facts.apply(transaction, fact));
    }
    this.readUntil.set(provider.name, begun);
  }

  /** Nearly everything in a list is in the books: one read finds that out, without a lock. */
  private async isSettled({ name }: PaymentProvider, { tenantId, kind, effect }: ProviderFact): Promise<boolean> {
    if (effect.state === 'pending' || effect.state === 'declined') return true; // its own operation waits for it
    const booked = kind === 'refund' && effect.state === 'failed' ? 'refund_reversal' : kind;
    const rows = await this.unitOfWork.read(tenantId, (manager) =>
      manager.query<unknown[]>(
        `SELECT 1 FROM money_movements WHERE tenant_id = $1 AND provider = $2 AND provider_ref = $3 AND kind = $4`,
        [tenantId, name, effect.reference, booked],
      ),
    );
    return rows.length > 0;
  }

  /** A provider without a list is asked again for what was given up lately, for as long again. */
  private async askForGivenUp(provider: PaymentProvider): Promise<void> {
    const lately = `payments.status = 'failed' AND payments.method = 'bank_transfer'
      AND payments.sent_at > statement_timestamp() - interval '${3 * this.options.giveUp} milliseconds'`;
    const tenants = await this.acrossTenants.query<{ tenant_id: string }>(
      `SELECT DISTINCT tenant_id FROM payments WHERE ${lately}`,
    );
    for (const { tenant_id: tenantId } of tenants) {
      const givenUp = await this.unitOfWork.read(tenantId, (manager) =>
        manager.query<Payment[]>(
          `SELECT ${PAYMENT_COLUMNS} FROM payments WHERE tenant_id = $1 AND ${lately} ORDER BY sent_at DESC LIMIT ${BATCH}`,
          [tenantId],
        ),
      );
      for (const { id: paymentId, method, sentAt: since } of givenUp) {
        if (providerOf(method) !== provider.name) continue;
        const effects = await provider.findCharges({ tenantId, paymentId, since });
        if (effects.length === 0) continue;
        await this.unitOfWork.run(tenantId, (transaction) => this.ledger.settle(transaction, paymentId, effects));
      }
    }
  }
}
