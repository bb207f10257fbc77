import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { decodeCursor, encodeCursor } from '../../../src/http/pagination.js';

const base64url = (text: string | Uint8Array): string => Buffer.from(text as string).toString('base64url');

describe('a cursor', () => {
  it('gives back the parts it was made of', () => {
    const parts = ['2026-11-03T10:00:00.123456Z', '0193f3a0-0000-7000-8000-000000000000'];
    expect(decodeCursor(encodeCursor(parts), 2)).toEqual(parts);
  });

  it('gives back any text and is safe in a URL (property)', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary', maxLength: 15 }), { maxLength: 5 }), (parts) => {
        fc.pre(!parts.some((part) => part.includes('\0')));
        const cursor = encodeCursor(parts);
        expect(cursor).toMatch(/^[A-Za-z0-9_-]+$/);
        expect(decodeCursor(cursor, parts.length)).toEqual(parts);
        expect(decodeCursor(cursor, parts.length + 1)).toBeUndefined();
      }),
    );
  });

  it('is not made where it could not be read back', () => {
    expect(() => encodeCursor(['x'.repeat(600)])).toThrow(RangeError);
    expect(() => encodeCursor(['a\0'])).toThrow(RangeError);
    expect(() => encodeCursor(['\ud800'])).toThrow(RangeError);
  });
});

describe('a token that is not ours', () => {
  const ours = encodeCursor(['a', 'bc']);

  it.each([
    ['empty', ''],
    ['no base64url', '!!!'],
    ['standard base64 with padding', Buffer.from('["a","bc"]').toString('base64')],
    ['ours with a stray character', `${ours.slice(0, 4)} ${ours.slice(4)}`],
    ['ours with something behind it', `${ours}=`],
    ['cut short', ours.slice(0, -1)],
    ['no JSON', base64url('a,bc')],
    ['an object', base64url('{"length":2}')],
    ['null', base64url('null')],
    ['too few parts', base64url('["a"]')],
    ['too many parts', base64url('["a","b","c"]')],
    ['numbers', base64url('["a",1]')],
    ['null parts', base64url('["a",null]')],
    ['another spelling', base64url('["a", "bc"]')],
    ['an escape in place of a letter', base64url('["\\u0061","bc"]')],
    ['NUL', base64url('["a","\\u0000"]')],
    ['a lone surrogate', base64url('["a","\\ud800"]')],
    ['invalid UTF-8', base64url(Uint8Array.from([...Buffer.from('["a","'), 0xff, ...Buffer.from('"]')]))],
    ['over 512 characters', base64url(JSON.stringify(['a', 'x'.repeat(400)]))],
    ['deep', base64url('['.repeat(380))],
  ])('%s is refused', (_what, cursor) => {
    expect(decodeCursor(cursor, 2)).toBeUndefined();
  });

  it('never throws, and what is accepted has one spelling only (property)', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.base64String(), fc.json().map(base64url)), (cursor) => {
        const parts = decodeCursor(cursor, 1);
        if (parts !== undefined) expect(encodeCursor(parts)).toBe(cursor);
      }),
    );
  });
});
