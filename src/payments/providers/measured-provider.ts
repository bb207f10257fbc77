import { type CallOutcome, type ProviderCall, tell } from '../../config/telemetry.js';
import type {
  ChargeOrder,
  ChargeQuery,
  Effect,
  PaymentProvider,
  ProviderAnswer,
  ProviderFact,
  RefundOrder,
  RefundQuery,
} from './payment-provider.js';

/** A provider whose calls are told of, with how they ended and how long they took. */
export class MeasuredProvider implements PaymentProvider {
  readonly name: PaymentProvider['name'];
  readonly keyWindow: number;
  readonly madeSince?: (time: Date) => AsyncIterable<ProviderFact>;

  constructor(private readonly provider: PaymentProvider) {
    this.name = provider.name;
    this.keyWindow = provider.keyWindow;
    if (provider.madeSince) this.madeSince = (time) => this.measuredList(provider.madeSince!(time));
  }

  async charge(order: ChargeOrder): Promise<ProviderAnswer> {
    const begun = performance.now();
    const answer = await this.provider.charge(order);
    this.tell({ operation: 'charge', outcome: outcomeOf(answer) }, performance.now() - begun);
    return answer;
  }

  async refund(order: RefundOrder): Promise<ProviderAnswer> {
    const begun = performance.now();
    const answer = await this.provider.refund(order);
    this.tell({ operation: 'refund', outcome: outcomeOf(answer) }, performance.now() - begun);
    return answer;
  }

  findCharges(query: ChargeQuery): Promise<Effect[]> {
    return this.measuredLookUp(() => this.provider.findCharges(query));
  }

  findRefunds(query: RefundQuery): Promise<Effect[]> {
    return this.measuredLookUp(() => this.provider.findRefunds(query));
  }

  private async measuredLookUp(lookUp: () => Promise<Effect[]>): Promise<Effect[]> {
    const begun = performance.now();
    let outcome: 'found' | 'nothing' | 'failed' = 'failed';
    try {
      const effects = await lookUp();
      outcome = effects.length > 0 ? 'found' : 'nothing';
      return effects;
    } finally {
      this.tell({ operation: 'look_up', outcome }, performance.now() - begun);
    }
  }

  /** All pages of a list are one call; what its reader does between two facts is not the provider's time. */
  private async *measuredList(facts: AsyncIterable<ProviderFact>): AsyncGenerator<ProviderFact> {
    const iterator = facts[Symbol.asyncIterator]();
    let milliseconds = 0;
    let outcome: 'read' | 'failed' = 'failed';
    try {
      for (;;) {
        const begun = performance.now();
        const next = await iterator.next().finally(() => (milliseconds += performance.now() - begun));
        if (next.done) break;
        yield next.value;
      }
      outcome = 'read';
    } finally {
      this.tell({ operation: 'list', outcome }, milliseconds);
    }
  }

  private tell(call: ProviderCall, milliseconds: number): void {
    tell('provider-call', { provider: this.name, ...call, milliseconds });
  }
}

function outcomeOf(answer: ProviderAnswer): CallOutcome {
  if (answer.kind === 'effect') return answer.effect.state;
  return answer.kind === 'not-happened' ? 'not_happened' : answer.kind;
}
