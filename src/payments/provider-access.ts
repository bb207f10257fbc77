import { randomUUID } from 'node:crypto';
import type { Settings } from '../config/settings.js';

/** Where the providers are and how to speak to them. */
export interface ProviderAccess {
  /** Milliseconds for each call to a provider, as a whole. */
  readonly timeout: number;
  readonly stripe: {
    readonly secretKey: string;
    /** Undefined: Stripe's own. */
    readonly apiBase: string | undefined;
    readonly webhookSecret: string;
  };
  /** Undefined: there is no bank. */
  readonly bankApiBase: string | undefined;
}

/** The secret by which the sandbox signs its webhooks where none is set. */
export const SANDBOX_WEBHOOK_SECRET = 'whsec_sandbox';

/** Whether no provider is configured, so that the service brings one of its own. */
export function needsSandbox({ stripe }: Settings['payments']): boolean {
  return stripe.secretKey === undefined && stripe.apiBase === undefined;
}

/**
 * @param sandboxUrl of the sandbox, where {@link needsSandbox}
 */
export function providerAccess(
  { providerTimeout, stripe, bankApiBase }: Settings['payments'],
  sandboxUrl?: string,
): ProviderAccess {
  const isStandIn = stripe.secretKey === undefined;
  return {
    timeout: providerTimeout,
    stripe: {
      secretKey: stripe.secretKey ?? 'sk_test_sandbox',
      apiBase: stripe.apiBase ?? sandboxUrl,
      // Without a secret nobody can sign: every webhook is refused, rather than any believed.
      webhookSecret: stripe.webhookSecret ?? (isStandIn ? SANDBOX_WEBHOOK_SECRET : `none-${randomUUID()}`),
    },
    bankApiBase: bankApiBase ?? sandboxUrl,
  };
}
