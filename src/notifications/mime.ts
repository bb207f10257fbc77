import type { SendMailOptions } from 'nodemailer';
import type { Mail } from './mailer.js';

/** The mail as nodemailer takes it, which encodes headers and text. */
export function mimeOf({ messageId, to, subject, text, date }: Mail, from: string): SendMailOptions {
  return {
    messageId,
    // As objects: a text would be parsed, and what looks like a list of addresses would become one.
    from: { name: '', address: from },
    to: { name: '', address: to },
    subject,
    text,
    date,
    // RFC 3834: nobody's absence is to be answered to us.
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}
