import { randomBytes } from 'node:crypto';

/** An id as Stripe writes them: `pi_3…`. */
export function newId(prefix: string): string {
  return `${prefix}_${randomBytes(18).toString('base64url').replaceAll(/[-_]/g, '0')}`;
}
