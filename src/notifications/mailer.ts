/** A mail as it goes out: the same however often it is sent. */
export interface Mail {
  /** Of the notification: UUID. */
  readonly id: string;
  /** RFC 5322, section 3.6.4, in angle brackets: mail systems drop a second mail of the same one. */
  readonly messageId: string;
  /** One address. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly date: Date;
}

/** The server says that this mail will never be taken. Its message may name the recipient: not for logs. */
export class MailRefusedError extends Error {
  override readonly name = 'MailRefusedError';

  /** @param summary a code, without an address: fit for logs */
  constructor(
    message: string,
    readonly summary: string,
  ) {
    super(message);
  }
}

/**
 * The mail was not taken now, or nobody knows whether it was: the same mail may be sent again. Its message may name the
 * recipient: not for logs.
 */
export class MailDelayedError extends Error {
  override readonly name = 'MailDelayedError';

  /**
   * @param summary a code, without an address: fit for logs
   * @param isAway the server takes no mail at all at the moment, which says nothing about this one
   */
  constructor(
    message: string,
    readonly summary: string,
    readonly isAway = false,
  ) {
    super(message);
  }
}

/** Hands mails over to whoever delivers them. */
export abstract class Mailer {
  /**
   * Comes back when the mail has been taken.
   *
   * @param signal gives it up: whether the mail was taken is not known then
   * @throws MailRefusedError, MailDelayedError
   */
  abstract send(mail: Mail, signal: AbortSignal): Promise<void>;
}
