import { join } from 'node:path';
import type { Settings } from '../config/settings.js';

/** How mails leave. */
export type MailAccess =
  /** The URL carries a password. */
  | { readonly kind: 'smtp'; readonly url: string }
  /** Into a directory, one file each: nothing leaves. */
  | { readonly kind: 'files'; readonly directory: string };

/**
 * @param embeddedDirectory of the embedded database, where that is used
 * @returns undefined: no mails
 */
export function mailAccess({ smtpUrl }: Settings['notifications'], embeddedDirectory?: string): MailAccess | undefined {
  if (smtpUrl !== undefined) return { kind: 'smtp', url: smtpUrl };
  if (embeddedDirectory !== undefined) return { kind: 'files', directory: join(embeddedDirectory, 'mail') };
  return undefined;
}
