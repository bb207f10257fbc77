import { z } from 'zod';
import { parseDuration } from './duration.js';
import { isSmtpUrl, SMTP_URL_RULE } from './smtp-url.js';

const LONGEST_TIMER = 2 ** 31 - 1;

/** Milliseconds; written with a unit. `timer`: short enough for one timer of Node's. */
export function duration(written: string, { zero = false, timer = false } = {}) {
  return z
    .string()
    .default(written)
    .transform((text, context) => {
      const milliseconds = parseDuration(text);
      if (milliseconds === undefined) {
        context.addIssue(`is "${text}", but must be a duration such as 500ms, 30s, 5m, 24h or 30d`);
        return z.NEVER;
      }
      if (milliseconds === 0 && !zero) {
        context.addIssue('must be longer than zero');
        return z.NEVER;
      }
      if (timer && milliseconds > LONGEST_TIMER) {
        context.addIssue('must be at most 24d: longer ones cannot be timed');
        return z.NEVER;
      }
      return milliseconds;
    });
}

/** A whole number. */
export function integer(written: string, least: number, most: number) {
  return z
    .string()
    .default(written)
    .transform((text, context) => {
      const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
      if (number >= least && number <= most) return number;
      context.addIssue(`is "${text}", but must be a whole number from ${least} to ${most}`);
      return z.NEVER;
    });
}

/** A URL whose text never appears in a message: it may carry a password. */
export function url(...schemes: string[]) {
  return z
    .string()
    .refine((text) => URL.canParse(text) && schemes.includes(new URL(text).protocol.slice(0, -1)), {
      message: `must be a URL that begins with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`,
    })
    .optional();
}

/** Where a server is called, whose text may appear in no message either. What follows it is the caller's. */
export function serverUrl(isFit: (url: URL) => boolean, message: string) {
  return z
    .string()
    .refine((text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) && isFit(new URL(text)), {
      message,
    })
    .transform((text) => text.replace(/\/+$/, ''))
    .optional();
}

/** Where mails are handed over; it may carry a password, and its text appears in no message. */
export const smtpUrl = z.string().refine(isSmtpUrl, { message: SMTP_URL_RULE }).optional();

/** A secret that goes into a header or a signature: a line break from a file would be sent, or make every call fail. */
export const secret = z
  .string()
  .regex(/^[\x21-\x7e]+$/, { message: 'must be printable ASCII without spaces' })
  .optional();

export const flag = z
  .enum(['true', 'false'], { error: 'must be true or false' })
  .transform((text) => text === 'true')
  .optional();

/** RFC 6454, section 6.2. */
function isOrigin(text: string): boolean {
  return /^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

export const origins = z
  .string()
  .default('')
  .transform((text) => text.split(',').map((origin) => origin.trim()))
  .transform((list) => list.filter((origin) => origin !== ''))
  .refine((list) => list.every((origin) => origin === '*' || isOrigin(origin)), {
    message: 'must be origins such as https://shop.example, separated by commas',
  });
