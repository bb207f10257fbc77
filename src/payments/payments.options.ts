/** Times of payments, in milliseconds. */
export interface PaymentsOptions {
  /** Between two runs of the reconciliation. */
  readonly reconciliationInterval: number;
  /** Since its first call, after which an operation that left no trace at the provider is given up. */
  readonly giveUp: number;
  /** For which a job owns a call to a provider. */
  readonly lease: number;
}

export const PAYMENTS_OPTIONS = Symbol('PAYMENTS_OPTIONS');
