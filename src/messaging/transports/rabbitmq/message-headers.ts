/** Headers of a message, beside the envelope in its body. */
export const HEADERS = {
  tenantId: 'tenant-id',
  /** Failed attempts of the consumer that the message is put off for. */
  attempts: 'attempts',
  /** Who could not apply it. */
  consumer: 'consumer',
  /** What it failed of last. */
  reason: 'reason',
} as const;

export type MessageHeaders = Partial<Record<(typeof HEADERS)[keyof typeof HEADERS], string | number>>;
