import { tell } from '../../config/telemetry.js';
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
    if (provider.madeSince) this.madeSince = (time) => provider.madeSince!(time);
  }

  charge(order: ChargeOrder): Promise<ProviderAnswer> {
    return this.measure('charge', () => this.provider.charge(order), outcomeOf);
  }

  refund(order: RefundOrder): Promise<ProviderAnswer> {
    return this.measure('refund', () => this.provider.refund(order), outcomeOf);
  }

  findCharges(query: ChargeQuery): Promise<Effect[]> {
    return this.measure('look_up', () => this.provider.findCharges(query), shown);
  }

  findRefunds(query: RefundQuery): Promise<Effect[]> {
    return this.measure('look_up', () => this.provider.findRefunds(query), shown);
  }

  private async measure<T>(
    operation: 'charge' | 'refund' | 'look_up',
    call: () => Promise<T>,
    outcome: (result: T) => string,
  ): Promise<T> {
    const begun = performance.now();
    const told = (how: string) =>
      tell('provider-call', { provider: this.name, operation, outcome: how, milliseconds: performance.now() - begun });
    try {
      const result = await call();
      told(outcome(result));
      return result;
    } catch (error) {
      told('failed');
      throw error;
    }
  }
}

function outcomeOf(answer: ProviderAnswer): string {
  return answer.kind === 'effect' ? answer.effect.state : answer.kind.replace('-', '_');
}

function shown(effects: readonly Effect[]): string {
  return effects.length > 0 ? 'found' : 'nothing';
}
