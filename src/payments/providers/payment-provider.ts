/** What a provider shows of one movement of money: its own word, by whatever way it was heard. */
export interface Effect {
  /** The provider's name for it, unique among its movements. */
  readonly reference: string;
  readonly state: 'pending' | 'succeeded' | 'declined' | 'failed';
  /** Why it was declined or has failed, in the provider's words (`insufficient_funds`). */
  readonly code?: string;
  /** Minor units. */
  readonly amount: number;
  /** ISO 4217, upper case. */
  readonly currency: string;
  /** The provider's clock. */
  readonly createdAt: Date;
}

/** How one call to a provider ended, sorted by what it proves. */
export type ProviderAnswer =
  /** The provider shows what it did: the money moved, moves, or was refused by the card. */
  | { readonly kind: 'effect'; readonly effect: Effect }
  /** Nothing happened, for a reason in what the client sent: payment method, amount, currency. */
  | { readonly kind: 'refused'; readonly code: string }
  /** Proven not to have happened, for a reason that passes. */
  | { readonly kind: 'not-happened'; readonly reason: string }
  /** It may have happened: nobody may say that it did not. */
  | { readonly kind: 'unknown'; readonly reason: string }
  /** Refused for a reason on our side (`authentication`, `idempotency_error`, ...): somebody has to mend it. */
  | { readonly kind: 'fault'; readonly code: string; readonly reason: string };

/** Whose movement a call makes; the provider keeps these ids beside it. */
interface Order {
  readonly tenantId: string;
  readonly paymentId: string;
  /** Of the operation under an idempotency key that moves the money. */
  readonly operationId: string;
  /** Minor units. */
  readonly amount: number;
  readonly currency: string;
  /** The child key: what the provider recognises a repeated call by. */
  readonly key: string;
}

export interface ChargeOrder extends Order {
  /** What to take the money from: a payment method of the card provider, an account of the bank. */
  readonly source: string;
}

export interface RefundOrder extends Order {
  /** Unique among all refunds; the bank is asked by it. */
  readonly refundId: string;
  /** The provider's reference of the charge that is given back. */
  readonly chargeRef: string;
}

export interface ChargeQuery {
  readonly tenantId: string;
  readonly paymentId: string;
  /** No call for it was made before. */
  readonly since: Date;
}

export interface RefundQuery extends ChargeQuery {
  readonly refundId: string;
  readonly chargeRef: string;
  /** The provider's name for it, where that is known: one made in its dashboard does not carry our id. */
  readonly reference?: string;
}

/** A movement that the provider tells of, and whose it is as far as the provider knows. */
export interface ProviderFact {
  readonly kind: 'charge' | 'refund';
  readonly tenantId: string;
  readonly paymentId: string;
  /** Undefined for a refund that was not asked for through this service: somebody used the provider's dashboard. */
  readonly refundId?: string;
  /** The provider's id of the charge that a refund gives back of. */
  readonly chargeRef?: string;
  readonly effect: Effect;
}

/** What a provider sent by itself, once its signature was found to be right. */
export interface ProviderNotice {
  /** The provider's id of the message; a repetition carries the same. */
  readonly messageId: string;
  readonly type: string;
  /** Empty where the message is about nothing of ours. */
  readonly facts: readonly ProviderFact[];
}

/** Thrown by look-ups: the provider could not be asked, so nothing is known, least of all that there is nothing. */
export class LookUpFailedError extends Error {
  override readonly name = 'LookUpFailedError';

  constructor(provider: string, cause: unknown) {
    super(`${provider} could not be asked what it has done: ${String(cause)}`, { cause });
  }
}

/**
 * Somebody who moves money when called, and whom a lost reply leaves in the dark about. Calls never throw: each way for a
 * call to end is an answer. Nothing is retried inside; who calls again decides so by {@link keyWindow}.
 */
export interface PaymentProvider {
  readonly name: 'stripe' | 'bank';
  /** Milliseconds for which a call with the same child key is recognised as a repeat; 0: never, so nobody may repeat. */
  readonly keyWindow: number;

  charge(order: ChargeOrder): Promise<ProviderAnswer>;
  refund(order: RefundOrder): Promise<ProviderAnswer>;

  /**
   * Everything that happened for that payment, oldest first; more than one where something went wrong.
   *
   * @throws LookUpFailedError
   */
  findCharges(query: ChargeQuery): Promise<Effect[]>;
  /** @throws LookUpFailedError */
  findRefunds(query: RefundQuery): Promise<Effect[]>;

  /**
   * Whatever was made since that time and carries our ids, in no order; undefined where the provider can only be asked by
   * reference.
   *
   * @throws LookUpFailedError
   */
  madeSince?(time: Date): AsyncIterable<ProviderFact>;
}
