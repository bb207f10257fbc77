import { createHmac } from 'node:crypto';

/** The value of `Stripe-Signature`: https://docs.stripe.com/webhooks#verify-manually */
export function sign(payload: string, secret: string, now = Date.now()): string {
  const timestamp = Math.floor(now / 1_000);
  return `t=${timestamp},v1=${createHmac('sha256', secret).update(`${timestamp}.${payload}`).digest('hex')}`;
}
