/** An answer as it went over the wire: nothing but a status, the headers that matter, and bytes. */
export interface StoredResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** What is on record about a key. */
export interface KeyRecord {
  readonly fingerprint: Buffer;
  readonly fingerprintVersion: number;
  readonly createdAt: Date;
  /** Whether somebody works on an unfinished operation; without a lease anybody may take it over. */
  readonly leased?: boolean;
  /** Undefined while the operation is unfinished. */
  readonly completed?: { readonly response: StoredResponse; readonly expiresAt: Date };
}
