import { type Effect, LookUpFailedError, type PaymentProvider, type ProviderAnswer } from './payment-provider.js';

/** Stands for a provider that nobody has configured: nothing ever happens there. */
export class UnconfiguredProvider implements PaymentProvider {
  readonly keyWindow = 0;

  /** @param setting the variable that is missing */
  constructor(
    readonly name: PaymentProvider['name'],
    private readonly setting: string,
  ) {}

  async charge(): Promise<ProviderAnswer> {
    return { kind: 'not-happened', reason: `${this.setting} is not set` };
  }

  async refund(): Promise<ProviderAnswer> {
    return this.charge();
  }

  async findCharges(): Promise<Effect[]> {
    throw new LookUpFailedError(this.name, new Error(`${this.setting} is not set`));
  }

  async findRefunds(): Promise<Effect[]> {
    return this.findCharges();
  }
}
