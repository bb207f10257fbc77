import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { parseIdempotencyKey } from '../../../src/idempotency/idempotency-key.js';

describe('an Idempotency-Key', () => {
  it('is the same key bare and as a structured-field string', () => {
    expect(parseIdempotencyKey(['abc-1'])).toEqual({ key: 'abc-1' });
    expect(parseIdempotencyKey(['"abc-1"'])).toEqual({ key: 'abc-1' });
    expect(parseIdempotencyKey([' \t"abc-1" '])).toEqual({ key: 'abc-1' });
    expect(parseIdempotencyKey([' abc-1\t'])).toEqual({ key: 'abc-1' });
  });

  it.each([
    ['"a\\"b"', 'a"b'],
    ['"a\\\\b"', 'a\\b'],
    ['"\\\\"', '\\'],
    ['a\\b', 'a\\b'],
    ['"a, b;c=1"', 'a, b;c=1'],
    ['a, b;c=1', 'a, b;c=1'],
    ['" a "', ' a '],
    ['~', '~'],
  ])('%s is the key %j', (line, key) => {
    expect(parseIdempotencyKey([line])).toEqual({ key });
  });

  it('has 255 characters at most, quotes and escapes not counted', () => {
    const longest = 'k'.repeat(255);
    expect(parseIdempotencyKey([longest])).toEqual({ key: longest });
    expect(parseIdempotencyKey([`"${longest}"`])).toEqual({ key: longest });
    expect(parseIdempotencyKey([`"${'\\"'.repeat(255)}"`])).toEqual({ key: '"'.repeat(255) });
  });

  it('is missing where there is no header', () => {
    expect(parseIdempotencyKey(undefined)).toMatchObject({ problem: 'missing' });
    expect(parseIdempotencyKey([])).toMatchObject({ problem: 'missing' });
  });

  it.each([
    ['empty', ''],
    ['blank', ' \t '],
    ['an empty string', '""'],
    ['too long', 'k'.repeat(256)],
    ['too long in quotes', `"${'k'.repeat(256)}"`],
    ['a letter outside ASCII', 'caf\u00e9'],
    ['a letter outside ASCII in quotes', '"caf\u00e9"'],
    ['a no-break space at the end', 'abc\u00a0'],
    ['a control character', 'a\u0001b'],
    ['a tab inside', 'a\tb'],
    ['DEL', 'a\u007f'],
    ['a line break at the end', 'abc\n'],
    ['no closing quote', '"abc'],
    ['no opening quote', 'abc"'],
    ['only a quote', '"'],
    ['a quote inside a bare key', 'a"b'],
    ['a closing quote that is escaped', '"abc\\"'],
    ['a backslash at the end', '"abc\\'],
    ['an unknown escape', '"a\\n"'],
    ['text after the closing quote', '"abc"d'],
    ['a parameter', '"abc";p=1'],
    ['a list', '"abc", "def"'],
    ['two strings', '"abc""def"'],
  ])('is refused: %s', (_what, line) => {
    expect(parseIdempotencyKey([line])).toEqual({ problem: 'invalid', detail: expect.stringMatching(/\.$/) });
  });

  it('is refused on two header lines, even the same twice', () => {
    expect(parseIdempotencyKey(['a', 'a'])).toMatchObject({ problem: 'invalid' });
    expect(parseIdempotencyKey(['', ''])).toMatchObject({ problem: 'invalid' });
  });

  it('survives being written as a structured-field string (property)', () => {
    const printable = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 255 });
    fc.assert(
      fc.property(printable, (key) => {
        expect(parseIdempotencyKey([`"${key.replace(/["\\]/g, '\\$&')}"`])).toEqual({ key });
      }),
    );
  });

  it('has an answer to any header (property)', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'"\\ a\t\u00e9,'), maxLength: 12 }), (line) => {
        const parsed = parseIdempotencyKey([line]);
        if ('key' in parsed) expect(parsed.key).toMatch(/^[\x20-\x7e]{1,255}$/);
        else expect(parsed.problem).toBe('invalid');
      }),
    );
  });
});
