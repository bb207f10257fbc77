import { Inject, Injectable } from '@nestjs/common';
import { UnitOfWork } from '../database/unit-of-work.js';
import { PAYMENTS_OPTIONS, type PaymentsOptions } from './payments.options.js';
import { ProviderFacts } from './provider-facts.js';
import type { PaymentProvider, ProviderFact } from './providers/payment-provider.js';
import { PaymentProviders } from './providers/payment-providers.js';

/** Milliseconds by which each look reaches back before the last one: lists lag, and clocks differ. */
const OVERLAP = 1_800_000;

/**
 * Reads the lists of what providers have made, and finds what stands in no book: a second charge for one payment, the
 * call of a stalled owner that landed after its payment was given up, a refund made in a dashboard whose webhook was
 * lost. Whatever is found is settled like any fact: booked, or given back.
 */
@Injectable()
export class LateEffects {
  /** Until when each provider's list was read, by this process: at start as far back as anything is left open. */
  private readonly readUntil = new Map<PaymentProvider['name'], number>();

  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly facts: ProviderFacts,
    private readonly providers: PaymentProviders,
    @Inject(PAYMENTS_OPTIONS) private readonly options: PaymentsOptions,
  ) {}

  /** @throws LookUpFailedError, and Error where something does not fit yet */
  async run(): Promise<void> {
    for (const provider of this.providers.all) {
      if (provider.madeSince) await this.readList(provider);
    }
  }

  /**
   * Everything that the provider has made since the last look. It comes newest first and is written down oldest first:
   * what was made later may fit only what came before it. What does not fit yet keeps nothing else from the books, and
   * is read again.
   */
  private async readList(provider: PaymentProvider): Promise<void> {
    const begun = Date.now();
    const since = this.readUntil.get(provider.name) ?? begun - this.options.giveUp;
    const found: ProviderFact[] = [];
    for await (const fact of provider.madeSince!(new Date(since - OVERLAP))) {
      if (ProviderFacts.isOurs(fact) && !(await this.isSettled(provider, fact))) found.push(fact);
    }
    const inTurn = found.reverse();
    const failures: unknown[] = [];
    for (const fact of [...inTurn.filter(isCharge), ...inTurn.filter((fact) => !isCharge(fact))]) {
      await this.unitOfWork
        .run(fact.tenantId, (transaction) => this.facts.apply(transaction, fact))
        .catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0)
      throw new Error(`${failures.length} of ${found.length} do not fit yet: ${String(failures[0])}`);
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
}

function isCharge({ kind }: ProviderFact): boolean {
  return kind === 'charge';
}
