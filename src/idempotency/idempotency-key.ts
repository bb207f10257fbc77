/** The longest key, in characters, after unquoting. */
export const MAX_IDEMPOTENCY_KEY_LENGTH = 255;

/**
 * A key, or why there is none: `missing` (no header at all) is a fault only where the route requires a key,
 * `invalid` always is. `detail` is fit for the client and does not repeat what it sent.
 */
export type ParsedIdempotencyKey = { key: string } | { problem: 'missing' | 'invalid'; detail: string };

/**
 * Reads the `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header). The bare form `abc-1` and the
 * structured-field string `"abc-1"` (RFC 9651, section 3.3.3; `\"` and `\\` resolved) are the same key. A value
 * that begins with a quote is always read as a structured-field string; parameters behind it are refused.
 *
 * Never throws, and linear in the length of the header.
 *
 * @param lines one entry per header line (`req.headersDistinct['idempotency-key']`): Node's `headers` joins two
 *   lines by a comma, which would make a new key of two.
 */
export function parseIdempotencyKey(lines: readonly string[] | undefined): ParsedIdempotencyKey {
  const [line, ...others] = lines ?? [];
  if (line === undefined) {
    return { problem: 'missing', detail: 'This request needs an Idempotency-Key header.' };
  }
  if (others.length > 0) return invalid('More than one Idempotency-Key header was sent.');

  const value = trimBlanks(line);
  if (!/^[\x20-\x7e]*$/.test(value)) return invalid('The key may contain printable ASCII characters only.');

  const key = value.startsWith('"') ? unquote(value) : value.includes('"') ? undefined : value;
  if (key === undefined) {
    return invalid('The quotes are unbalanced: send the key bare, or as one string in double quotes.');
  }
  if (key === '') return invalid('The key is empty.');
  if (key.length > MAX_IDEMPOTENCY_KEY_LENGTH) {
    return invalid(`The key is longer than ${MAX_IDEMPOTENCY_KEY_LENGTH} characters.`);
  }
  return { key };
}

function invalid(detail: string): ParsedIdempotencyKey {
  return { problem: 'invalid', detail };
}

/** Blanks around a field value are no part of it (RFC 9110, section 5.5). Not `trim()`, which takes U+00A0 too. */
function trimBlanks(line: string): string {
  const isBlank = (at: number): boolean => line[at] === ' ' || line[at] === '\t';
  let start = 0;
  while (isBlank(start)) start += 1;
  let end = line.length;
  while (end > start && isBlank(end - 1)) end -= 1;
  return line.slice(start, end);
}

/** RFC 9651, section 4.2.5, on a value that starts with a quote; undefined where it fails. */
function unquote(value: string): string | undefined {
  let key = '';
  for (let at = 1; at < value.length; at += 1) {
    let char = value[at];
    if (char === '"') return at === value.length - 1 ? key : undefined;
    if (char === '\\') {
      at += 1;
      char = value[at];
      if (char !== '"' && char !== '\\') return undefined;
    }
    key += char;
  }
  return undefined;
}
