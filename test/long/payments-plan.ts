import { CARD, DECLINED_CARD, TRANSFER } from '../payments/paying.js';
import { Random } from './random.js';

export const PROVIDER_OPERATIONS = ['payment_intents.create', 'refunds.create', 'bank_transfers.create'] as const;
export const FAULTS = ['drop-response', 'delay', 'error-500', 'error-503', 'reset-connection'] as const;
export type ProviderOperation = (typeof PROVIDER_OPERATIONS)[number];

/** Cards whose refunds end later, or fail after they had succeeded. */
const PENDING_REFUND_CARD = { method: 'card', paymentMethod: 'pm_card_pendingRefund' };
const FAILING_REFUND_CARD = { method: 'card', paymentMethod: 'pm_card_refundFail' };
const CLOSED_ACCOUNT = { method: 'bank_transfer', account: 'DE00CLOSED0000' };

/** What the seed has decided about one operation. What exists when its turn comes decides the rest, by `pick`. */
export type Step = { readonly process: 0 | 1; readonly order: number; readonly pick: number } & (
  | { readonly kind: 'pay'; readonly body: object; readonly hangUp?: number }
  | { readonly kind: 'refund'; readonly share: number | 'all'; readonly reference?: string; readonly hangUp?: number }
  | { readonly kind: 'retry'; readonly copies: number }
  | { readonly kind: 'edit' | 'upsert'; readonly unitAmount: number }
  | { readonly kind: 'cancel' | 'delete' | 'read' | 'failRefund' | 'crash' }
  | { readonly kind: 'stall'; readonly ms: number }
  | { readonly kind: 'redeliver'; readonly sequence: 'original' | 'reverse' | 'random' }
  | { readonly kind: 'webhooks'; readonly paused: boolean }
  | { readonly kind: 'dashboardRefund'; readonly share: number | 'all' }
  | {
      readonly kind: 'fault';
      readonly operation: ProviderOperation;
      readonly fault: (typeof FAULTS)[number];
      readonly times: number;
      readonly delayMs: number;
    }
  | { readonly kind: 'hold'; readonly operation: ProviderOperation; readonly ms: number }
);

export interface Plan {
  readonly seed: number;
  readonly orders: readonly { readonly unitAmount: number; readonly externalRef: string }[];
  readonly steps: readonly Step[];
  /** How many clients work through the steps. */
  readonly clients: number;
  /** The share of webhooks that never arrive. */
  readonly lost: number;
}

/**
 * Everything that chance decides in a run, made of its seed alone.
 *
 * @param full whether it is long and may end processes
 */
export function planOf(seed: number, full: boolean): Plan {
  const random = new Random(seed, 0);
  const orders = Array.from({ length: full ? random.between(6, 16) : 6 }, (_, n) => ({
    unitAmount: random.between(50, 5_000),
    externalRef: `order-${n}`,
  }));
  const clients = random.between(4, 10);
  const lost = random.chance(0.3) ? 0.2 : 0;
  const length = full ? random.between(60, 300) : 40;
  const steps = Array.from({ length }, () => stepOf(random, orders.length));
  if (full) {
    // Few enough that the run is not spent on waiting for them.
    const ends = Array.from({ length: random.between(0, 2) }, (): Step => ({ ...head(random, 1), kind: 'crash' }));
    if (random.chance(0.3)) ends.push({ ...head(random, 1), kind: 'stall', ms: random.between(2_500, 5_500) });
    for (const end of ends) steps.splice(random.between(5, steps.length - 5), 0, end);
  }
  return { seed, orders, steps, clients, lost };
}

function head(random: Random, orders: number): Pick<Step, 'process' | 'order' | 'pick'> {
  return { process: random.pick([0, 1]), order: random.between(0, orders - 1), pick: random.next() };
}

function stepOf(random: Random, orders: number): Step {
  const base = head(random, orders);
  const share = () => (random.chance(0.3) ? 'all' : random.pick([0.1, 0.25, 0.5, 0.6, 1.2]));
  const hangUp = () => (random.chance(0.1) ? { hangUp: random.between(1, 300) } : {});
  return random.weighted<Step>([
    [26, () => ({ ...base, kind: 'pay', body: meansOf(random), ...hangUp() })],
    [
      18,
      () => ({
        ...base,
        kind: 'refund',
        share: share(),
        ...(random.chance(0.3) && { reference: `return-${random.between(1, 3)}` }),
        ...hangUp(),
      }),
    ],
    [14, () => ({ ...base, kind: 'retry', copies: random.between(1, 4) })],
    [5, () => ({ ...base, kind: 'edit', unitAmount: random.between(50, 5_000) })],
    [2, () => ({ ...base, kind: 'upsert', unitAmount: random.between(50, 5_000) })],
    [1, () => ({ ...base, kind: 'cancel' })],
    [1, () => ({ ...base, kind: 'delete' })],
    [6, () => ({ ...base, kind: 'read' })],
    [2, () => ({ ...base, kind: 'redeliver', sequence: random.pick(['original', 'reverse', 'random']) })],
    [3, () => ({ ...base, kind: 'webhooks', paused: random.chance(0.5) })],
    [4, () => ({ ...base, kind: 'dashboardRefund', share: share() })],
    [2, () => ({ ...base, kind: 'failRefund' })],
    [
      12,
      () => ({
        ...base,
        kind: 'fault',
        operation: random.pick(PROVIDER_OPERATIONS),
        fault: random.pick(FAULTS),
        times: random.between(1, 2),
        delayMs: random.between(0, 1_200),
      }),
    ],
    [3, () => ({ ...base, kind: 'hold', operation: random.pick(PROVIDER_OPERATIONS), ms: random.between(500, 6_500) })],
  ]);
}

function meansOf(random: Random): object {
  return random.weighted<object>([
    [10, () => CARD],
    [3, () => DECLINED_CARD],
    [7, () => TRANSFER],
    [2, () => PENDING_REFUND_CARD],
    [2, () => FAILING_REFUND_CARD],
    [1, () => CLOSED_ACCOUNT],
  ]);
}
