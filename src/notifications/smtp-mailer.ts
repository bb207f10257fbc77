import { createTransport, type NodemailerError } from 'nodemailer';
import { PLAIN_ADDRESS } from '../config/smtp-url.js';
import { type Mail, MailDelayedError, Mailer, MailRefusedError } from './mailer.js';
import { mimeOf } from './mime.js';

/**
 * Milliseconds. A server may take long to look through a mail before it says that it has it; whoever gives up then sends
 * it twice (RFC 1047). So silence is borne much longer than a server that cannot be reached.
 */
export interface SmtpTimes {
  readonly connect: number;
  readonly silence: number;
}

const TIMES: SmtpTimes = { connect: 10_000, silence: 60_000 };

/** What comes of these says nothing about the mail: nobody was reached, or nobody let us in. */
const AWAY = ['EDNS', 'ETLS', 'EAUTH', 'ENOAUTH', 'ECONFIG'];
const UNREACHED = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN'];
/** Commands whose 5xx is an answer to the mail itself. The sender's address and the login are our own matter. */
const ABOUT_THE_MAIL = ['RCPT TO', 'DATA'];

/** Hands mails over to an SMTP server, each on a connection of its own: a slow one holds up no other. */
export class SmtpMailer extends Mailer {
  private readonly transport: ReturnType<typeof transportTo>;
  private readonly from: string;

  /** @param url as the settings have checked it */
  constructor(url: string, times = TIMES) {
    super();
    const server = new URL(url);
    this.transport = transportTo(server, times);
    this.from = senderOf(server);
  }

  async send(mail: Mail, signal: AbortSignal): Promise<void> {
    try {
      await this.transport.sendMail({ ...mimeOf(mail, this.from), signal });
    } catch (error) {
      throw verdictOn(error as NodemailerError);
    }
  }
}

function transportTo({ protocol, hostname, port, username, password, searchParams }: URL, times: SmtpTimes) {
  const secure = protocol === 'smtps:';
  const host = hostname.replace(/^\[|\]$/g, '');
  return createTransport({
    host,
    port: Number(port) || (secure ? 465 : 587),
    secure,
    requireTLS: searchParams.get('requireTLS') === 'true',
    // What never leaves the machine needs no certificate; elsewhere TLS is taken where it is offered.
    ignoreTLS: /^(localhost|127\..*|::1)$/.test(host),
    ...(username !== '' && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    connectionTimeout: times.connect,
    greetingTimeout: times.connect,
    dnsTimeout: times.connect,
    socketTimeout: times.silence,
    socketCloseTimeout: 1_000,
    // Its log would hold addresses and what is said to the server.
    logger: false,
    debug: false,
  });
}

/** Whom mails are from: as the URL says, else the account that logs in, else a name at the server's host. */
function senderOf({ username, hostname, searchParams }: URL): string {
  const from = searchParams.get('from');
  const account = decodeURIComponent(username);
  if (from !== null) return from;
  if (PLAIN_ADDRESS.test(account)) return account;
  return `receipts@${/^[a-z][a-z0-9.-]*$/i.test(hostname) ? hostname : 'localhost'}`;
}

/** RFC 5321, section 4.2.1: 5yz is final, 4yz and everything that is no answer may pass. */
function verdictOn({ code = 'unknown', responseCode, command = '', response, message, originalCode }: NodemailerError) {
  const status = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response ?? '')?.[1];
  const summary = [originalCode ?? code, responseCode, status].filter(Boolean).join(' ');
  const isFinal = responseCode !== undefined && responseCode >= 500 && responseCode !== 503;
  // An address or a size that nodemailer itself refuses has no answer of a server's; no later attempt changes that.
  const isUnusable = command === 'API' && code === 'EENVELOPE';
  if (isUnusable || (isFinal && ABOUT_THE_MAIL.includes(command))) return new MailRefusedError(message, summary);
  const isAway = AWAY.includes(code) || UNREACHED.includes(originalCode ?? '') || /^(EHLO|HELO|STARTTLS)/.test(command);
  return new MailDelayedError(message, summary, isAway);
}
