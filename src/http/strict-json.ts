import { visit, type JSONPath, type JSONVisitor } from 'jsonc-parser';

/** How many arrays and objects may stand inside each other; `[[1]]` is a nesting of 2. */
export const MAX_JSON_DEPTH = 32;

const MAX_POINTER_LENGTH = 120;

// `ignoreBOM: true` means "leave the BOM in the text", where it can be seen and refused.
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * The bytes are no JSON that we can take at its word. `message` says in plain words what is wrong and where
 * (a JSON Pointer, RFC 6901, and a position counted from 0) and is safe to show to the client.
 */
export class MalformedJsonError extends Error {
  override readonly name = 'MalformedJsonError';
}

/**
 * Parses JSON that every reader understands alike (I-JSON, RFC 7493, and a little stricter), so that two bodies
 * with one fingerprint cannot mean two things.
 *
 * Linear in the length of the input, whatever stands in it; recursion is bounded by {@link MAX_JSON_DEPTH}.
 *
 * @param bytes the body as received; an empty one is not JSON.
 * @returns a fresh value of plain objects, arrays, strings, finite numbers (0 for -0), booleans and null.
 * @throws MalformedJsonError for invalid UTF-8, a byte order mark, anything outside RFC 8259, a member named twice
 *   (escapes resolved) or named `__proto__`, a lone surrogate or NUL in a string or name, nesting deeper than
 *   {@link MAX_JSON_DEPTH}, and a number whose value changes when it is parsed to a double and written back in
 *   RFC 8785 form.
 */
export function parseStrictJson(bytes: Uint8Array): unknown {
  const text = decodeUtf8(bytes);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // The engine's message quotes the body, and often gives no position. Ours finds the first fault itself.
    inspect(text);
    throw new MalformedJsonError('The body is not JSON.');
  }
  const { negativeZero } = inspect(text);
  // RFC 8785 writes -0 as 0: it is no other number, and must not look like one to whoever compares.
  return negativeZero ? JSON.parse(text, (_name, member: unknown) => (member === 0 ? 0 : member)) : value;
}

function decodeUtf8(bytes: Uint8Array): string {
  let text: string;
  try {
    text = strictUtf8.decode(bytes);
  } catch {
    throw new MalformedJsonError('The body is not valid UTF-8.');
  }
  if (text.startsWith('\uFEFF')) {
    throw new MalformedJsonError('The body starts with a byte order mark; send UTF-8 without one.');
  }
  return text;
}

/** Walks the text, not the parsed value, where duplicates and the digits of numbers are already gone. */
function inspect(text: string): { negativeZero: boolean } {
  let negativeZero = false;
  // One entry per open array or object: the names seen so far in the object, nothing for an array.
  const open: (Set<string> | undefined)[] = [];

  const enter = (names: Set<string> | undefined, offset: number): void => {
    // Thrown from here, before `visit` goes down into the container: its recursion never gets deeper.
    if (open.length === MAX_JSON_DEPTH) {
      throw new MalformedJsonError(`Nesting deeper than ${MAX_JSON_DEPTH} at position ${offset}.`);
    }
    open.push(names);
  };

  const visitor: JSONVisitor = {
    onObjectBegin: (offset) => enter(new Set(), offset),
    onArrayBegin: (offset) => enter(undefined, offset),
    onObjectEnd: () => void open.pop(),
    onArrayEnd: () => void open.pop(),
    onObjectProperty: (name, offset, _length, _line, _column, path) => {
      const fault = faultOfString(name);
      if (fault !== undefined) throw malformed(`A member name contains ${fault}`, path(), offset);
      if (name === '__proto__') throw malformed('A member is named __proto__', path(), offset);
      const names = open.at(-1);
      if (names?.has(name)) throw malformed('A member appears twice', [...path(), name], offset);
      names?.add(name);
    },
    onLiteralValue: (value: unknown, offset, length, _line, _column, path) => {
      if (typeof value === 'string') {
        const fault = faultOfString(value);
        if (fault !== undefined) throw malformed(`A string contains ${fault}`, path(), offset);
      } else if (typeof value === 'number') {
        if (!survivesDouble(text.substring(offset, offset + length), value)) {
          throw malformed('A number changes its value when read as a double', path(), offset);
        }
        negativeZero ||= Object.is(value, -0);
      }
    },
    onError: (_code, offset) => {
      const where = offset < text.length ? `from position ${offset} on` : 'it ends too early';
      throw new MalformedJsonError(`The body is not JSON: ${where}.`);
    },
  };
  visit(text, visitor, { disallowComments: true });
  return { negativeZero };
}

function faultOfString(value: string): string | undefined {
  if (!value.isWellFormed()) return 'a lone surrogate';
  if (value.includes('\0')) return 'the NUL character';
  return undefined;
}

function malformed(what: string, path: JSONPath, offset: number): MalformedJsonError {
  const pointer = path.map((s) => `/${String(s).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  const shown =
    pointer.length > MAX_POINTER_LENGTH ? `${pointer.slice(0, MAX_POINTER_LENGTH).toWellFormed()}…` : pointer;
  return new MalformedJsonError(`${what} at ${shown === '' ? 'the top level' : shown}, position ${offset}.`);
}

/** Whether RFC 8785 section 3.2.2.3 (ECMAScript's Number-to-String) writes the value that `token` stands for. */
function survivesDouble(token: string, parsed: number): boolean {
  const written = String(parsed);
  if (written === token) return true; // nearly every number: integers and plain fractions
  if (!Number.isFinite(parsed)) return false;
  const before = decimalOf(token);
  const after = decimalOf(written);
  return before.negative === after.negative && before.digits === after.digits && before.exponent === after.exponent;
}

/** The exact value 0.d1d2d3… × 10^exponent; zero, of whatever sign, has no digits. */
interface Decimal {
  negative: boolean;
  digits: string;
  exponent: number;
}

const ZERO: Decimal = { negative: false, digits: '', exponent: 0 };

function decimalOf(token: string): Decimal {
  const negative = token.startsWith('-');
  const exponentAt = token.search(/[eE]/);
  const mantissa = token.slice(negative ? 1 : 0, exponentAt === -1 ? undefined : exponentAt);
  const point = mantissa.indexOf('.');
  const integer = point === -1 ? mantissa : mantissa.slice(0, point);
  const all = point === -1 ? mantissa : integer + mantissa.slice(point + 1);

  // Loops, not /0+$/: that expression takes quadratic time on many runs of zeros.
  let first = 0;
  while (all.charCodeAt(first) === 0x30) first += 1;
  if (first === all.length) return ZERO;
  let end = all.length;
  while (all.charCodeAt(end - 1) === 0x30) end -= 1;

  // An exponent beyond 2^53 loses digits here, but then the double is 0 or infinite and the rest differs anyway.
  const written = exponentAt === -1 ? 0 : Number(token.slice(exponentAt + 1));
  return { negative, digits: all.slice(first, end), exponent: written + integer.length - first };
}
