import Stripe from 'stripe';

/** The parameters of a charge that succeeds. */
export function card(amount = 1_000, paymentMethod = 'pm_card_visa') {
  return { amount, currency: 'eur', payment_method: paymentMethod, confirm: true };
}

/** The error that a call of the SDK ends with; a call that does not fail at all fails the test. */
export async function refusalOf(call: Promise<unknown>): Promise<Stripe.errors.StripeError> {
  const outcome = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  if (outcome === undefined) throw new Error('the call succeeded');
  if (!(outcome instanceof Stripe.errors.StripeError)) throw outcome as Error;
  return outcome;
}
