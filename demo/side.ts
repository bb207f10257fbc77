/** What both sides are given. */
export interface Surroundings {
  readonly databaseUrl: string;
  readonly providerUrl: string;
  readonly webhookSecret: string;
  readonly mailUrl: string;
}

/** How one of the two that are compared is started, and where it keeps what it did. */
export interface Side {
  readonly name: SideName;
  /** Built; below `dist`. */
  readonly script: string;
  /** Makes its tables. */
  prepare(databaseUrl: string): Promise<unknown>;
  env(surroundings: Surroundings): Record<string, string>;
  /** Gives one row of numbers: what exists now. */
  readonly counts: string;
  /** Gives one number: what it still has to do by itself. */
  readonly pending: string;
}

export const SIDE_NAMES = ['service', 'naive'] as const;
export type SideName = (typeof SIDE_NAMES)[number];

/** Milliseconds that either side waits for the provider. */
export const PROVIDER_TIMEOUT_MS = 3_000;

/** For receipts, from either side. */
export const SENDER = 'receipts@shop.example';
