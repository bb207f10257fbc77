const MAX_CURSOR_LENGTH = 512;

/**
 * Packs what a list's next page needs (the last row's sort values, as text) into one opaque token of URL-safe
 * characters (base64url, RFC 4648 section 5). It is not signed: a client may forge one, so decoded parts are input
 * like any other, checked by type and never trusted for access.
 *
 * @throws RangeError when {@link decodeCursor} would not take the token back: over 512 characters, a NUL or a
 *   lone surrogate in a part.
 *
 * @example encodeCursor([createdAt, id])
 */
export function encodeCursor(parts: readonly string[]): string {
  const cursor = pack(parts);
  if (cursor.length > MAX_CURSOR_LENGTH || !parts.every(isText)) {
    throw new RangeError('These parts do not fit into a cursor');
  }
  return cursor;
}

/**
 * The parts that {@link encodeCursor} packed, or undefined when the token is not one of ours: not in its exact
 * encoding, longer than 512 characters, another number of parts than `count`, or parts that are no text that
 * Postgres can hold (NUL, lone surrogates). Never throws.
 *
 * @param count how many parts this list's cursors have.
 */
export function decodeCursor(cursor: string, count: number): string[] | undefined {
  if (cursor.length > MAX_CURSOR_LENGTH) return undefined;
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
  } catch {
    return undefined;
  }
  if (!Array.isArray(parts) || parts.length !== count || !parts.every(isText)) return undefined;
  // Node's decoder skips what is not base64url and repairs broken UTF-8; only our own spelling comes back the same.
  return pack(parts) === cursor ? parts : undefined;
}

function pack(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts), 'utf8').toString('base64url');
}

function isText(part: unknown): part is string {
  return typeof part === 'string' && part.isWellFormed() && !part.includes('\0');
}
