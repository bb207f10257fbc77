/** What a test payment method does when it is charged, and later when the money is given back. */
export type TestCard =
  | { readonly charge: 'succeeds'; readonly refund: 'succeeds' | 'pends' | 'fails' }
  | { readonly charge: 'declines'; readonly code: string; readonly declineCode: string; readonly message: string };

const SUCCEEDS: TestCard = { charge: 'succeeds', refund: 'succeeds' };

function declines(declineCode: string, message: string, code = 'card_declined'): TestCard {
  return { charge: 'declines', code, declineCode, message };
}

/** https://docs.stripe.com/testing, of which these are known here. */
const TEST_CARDS = new Map<string, TestCard>([
  ['pm_card_visa', SUCCEEDS],
  ['pm_card_visa_debit', SUCCEEDS],
  ['pm_card_mastercard', SUCCEEDS],
  ['pm_card_amex', SUCCEEDS],
  ['pm_card_visa_chargeDeclined', declines('generic_decline', 'Your card was declined.')],
  ['pm_card_visa_chargeDeclinedInsufficientFunds', declines('insufficient_funds', 'Your card has insufficient funds.')],
  ['pm_card_visa_chargeDeclinedLostCard', declines('lost_card', 'Your card was declined.')],
  ['pm_card_visa_chargeDeclinedStolenCard', declines('stolen_card', 'Your card was declined.')],
  ['pm_card_chargeDeclinedExpiredCard', declines('expired_card', 'Your card has expired.', 'expired_card')],
  ['pm_card_pendingRefund', { charge: 'succeeds', refund: 'pends' }],
  ['pm_card_refundFail', { charge: 'succeeds', refund: 'fails' }],
]);

export function findTestCard(paymentMethod: string): TestCard | undefined {
  return TEST_CARDS.get(paymentMethod);
}
