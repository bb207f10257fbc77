/** Times of messaging, in milliseconds. */
export interface MessagingOptions {
  /** That events stay in the log and the outbox. */
  readonly eventRetention: number;
  /** That the inbox remembers a message; longer than any of them can come again. */
  readonly inboxRetention: number;
  /** That a relay owns the events it has taken without a sign of life. */
  readonly relayLease: number;
  /** Between two looks at an outbox in which nothing has happened. */
  readonly longestPause: number;
  /** Before the second attempt to deliver an event; doubled each time, up to five minutes. */
  readonly firstDelay: number;
  /** Attempts after which an event is put aside. */
  readonly attempts: number;
}

export const MESSAGING_OPTIONS = Symbol('MESSAGING_OPTIONS');

export const MESSAGING_DEFAULTS = {
  relayLease: 30_000,
  longestPause: 1_000,
  firstDelay: 1_000,
  attempts: 10,
} as const;
