/** The operations that are repeated under a key. `request` is a route of a fork's own (`OrdersClient.request`). */
export type KeyedOperation = 'createOrder' | 'updateOrder' | 'payOrder' | 'refundPayment' | 'request';

/**
 * One operation that is meant to happen once, with everything that is needed to send it again: the same key and the same
 * bytes. It is stored before the first attempt and removed after the final answer, never in between.
 */
export interface Intent {
  /** The `Idempotency-Key`, one for each intent. */
  readonly key: string;
  readonly operation: KeyedOperation;
  readonly method: string;
  /** Path and query, below the client's base URL. */
  readonly path: string;
  /** Beside those that each attempt has: `If-Match`. No credentials: those may change between attempts. */
  readonly headers: Readonly<Record<string, string>>;
  /** The JSON text; sent as these bytes in UTF-8, and never serialized anew. */
  readonly body: string;
  /** What this is for in the caller's own records. */
  readonly reference?: string;
  /** When the key was made, RFC 3339, by this machine's clock. No attempt is older. */
  readonly createdAt: string;
  /** How much the server's clock was ahead of this machine's, in milliseconds, where that was known. */
  readonly serverOffsetMs?: number;
  /** The `Idempotency-Expires` of an earlier answer, RFC 3339, by the server's clock. */
  readonly expiresAt?: string;
}

/** Something in a store that is no intent any more. Its key is lost, so what became of it must be looked up by hand. */
export interface DamagedEntry {
  /** Where it is: a file's path. */
  readonly source: string;
  readonly reason: string;
}

/**
 * Where intents are kept between attempts and over restarts. One process uses a store at a time. `MemoryIntentStore` and
 * `FileIntentStore` are two; a table beside the caller's own records is the best third.
 */
export interface IntentStore {
  /** Keeps an intent, or its newer form. Durable once resolved: nothing is sent before that. */
  put(intent: Intent): Promise<void>;
  get(key: string): Promise<Intent | undefined>;
  /** Forgets one; no error when there is none. */
  delete(key: string): Promise<void>;
  /** All of them, oldest first; what cannot be read is told and not left out. */
  list(): Promise<{ readonly intents: readonly Intent[]; readonly damaged: readonly DamagedEntry[] }>;
}

/** For stores that read what somebody else may have written. */
export function isIntent(value: unknown): value is Intent {
  if (typeof value !== 'object' || value === null) return false;
  const { key, operation, method, path, headers, body, createdAt, reference, expiresAt, serverOffsetMs } =
    value as Record<string, unknown>;
  const texts = [key, operation, method, path, body, createdAt];
  const optionalTexts = [reference, expiresAt].filter((member) => member !== undefined);
  return (
    [...texts, ...optionalTexts].every((member) => typeof member === 'string') &&
    typeof headers === 'object' &&
    headers !== null &&
    Object.values(headers).every((member) => typeof member === 'string') &&
    !Number.isNaN(Date.parse(createdAt as string)) &&
    (expiresAt === undefined || !Number.isNaN(Date.parse(expiresAt as string))) &&
    (serverOffsetMs === undefined || Number.isFinite(serverOffsetMs))
  );
}
