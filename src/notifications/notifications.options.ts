/** Times of notifications, in milliseconds. */
export interface NotificationsOptions {
  /** That a sender owns a notification without a sign of life. */
  readonly lease: number;
  /** For handing one over, as a whole; well below the lease. */
  readonly sendTimeout: number;
  /** Notifications that are handed over at the same time. */
  readonly lanes: number;
  /** Between two looks when nothing is due. */
  readonly longestPause: number;
  /** That the end of the process waits for what is being handed over. */
  readonly patience: number;
  /** That one is remembered after it was sent or given up. */
  readonly retention: number;
}

export const NOTIFICATIONS_OPTIONS = Symbol('NOTIFICATIONS_OPTIONS');

export const NOTIFICATIONS_DEFAULTS = {
  lease: 120_000,
  sendTimeout: 90_000,
  lanes: 10,
  longestPause: 1_000,
} as const;
