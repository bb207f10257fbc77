import type { NewOrder, NewPayment } from '../../src/client/index.js';

/** Without an `externalRef`, which would protect it as well: here keys are to show what they do. */
export const TEA: NewOrder = { currency: 'EUR', items: [{ sku: 'tea', quantity: 2, unitAmount: 450 }] };

export const CARD: NewPayment = { method: 'card', paymentMethod: 'pm_card_visa' };
