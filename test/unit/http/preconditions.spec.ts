import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { etagOf, ifMatchHolds, ifNoneMatchHolds } from '../../../src/http/preconditions.js';

describe('an entity tag', () => {
  it('is the version in quotes', () => {
    expect([etagOf(1), etagOf(10), etagOf(Number.MAX_SAFE_INTEGER)]).toEqual(['"1"', '"10"', '"9007199254740991"']);
  });

  it.each([1.5, NaN, Infinity, -1, 2 ** 53])('is never made of %s', (version) => {
    expect(() => etagOf(version)).toThrow(RangeError);
  });
});

const malformed = [
  '',
  ' ',
  ',',
  ', ,',
  '3',
  "'3'",
  '"3',
  '3"',
  '"',
  '""3"',
  '"3""3"',
  '"3" "3"',
  '"3";q=1',
  'w/"3"',
  'W/3',
  'W/ "3"',
  'W"3"',
  '"3", x',
  'x, "3"',
  '"3", "',
  '*, "3"',
  '"3", *',
  '**',
  '* *',
  '"3 "',
  '"\u0000"',
  '"3\t"',
  '"3\u007f"',
  '"\u0100"',
  '"3"\n',
];

describe('If-Match', () => {
  it.each([
    ['"3"', '"3"'],
    ['"1", "3"', '"3"'],
    ['"1","2" ,\t"3"', '"3"'],
    [' ,, "3" , ', '"3"'],
    ['W/"3", "3"', '"3"'],
    ['*', '"3"'],
    [' * ', '"3"'],
    ['"a,b", "c"', '"a,b"'],
    ['"a\\"', '"a\\"'],
    ['""', '""'],
    ['"\u00e9\u00ff"', '"\u00e9\u00ff"'],
    [undefined, '"3"'],
    [undefined, undefined],
  ])('%j holds for %j', (header, current) => {
    expect(ifMatchHolds(header, current)).toBe(true);
  });

  it.each([
    ['"2"', '"3"'],
    ['"03"', '"3"'],
    ['"33"', '"3"'],
    ['"a,3"', '"3"'],
    ['W/"3"', '"3"'],
    ['"3"', 'W/"3"'],
    ['W/"3"', 'W/"3"'],
    ['"3"', undefined],
    ['*', undefined],
  ])('%j does not hold for %j', (header, current) => {
    expect(ifMatchHolds(header, current)).toBe(false);
  });

  it.each(malformed)('malformed as %j never holds', (header) => {
    expect(ifMatchHolds(header, '"3"')).toBe(false);
  });
});

describe('If-None-Match', () => {
  it.each([
    ['"2"', '"3"'],
    ['"1", W/"2"', '"3"'],
    ['"3"', undefined],
    ['*', undefined],
    [undefined, '"3"'],
  ])('%j holds for %j', (header, current) => {
    expect(ifNoneMatchHolds(header, current)).toBe(true);
  });

  it.each([
    ['"3"', '"3"'],
    ['W/"3"', '"3"'],
    ['"3"', 'W/"3"'],
    ['W/"3"', 'W/"3"'],
    ['"1",, W/"3"', '"3"'],
    ['*', '"3"'],
  ])('%j does not hold for %j', (header, current) => {
    expect(ifNoneMatchHolds(header, current)).toBe(false);
  });

  it.each(malformed)('malformed as %j matches nothing', (header) => {
    expect(ifNoneMatchHolds(header, '"3"')).toBe(true);
  });
});

describe('both conditions', () => {
  it('find a tag anywhere in any well-formed list (property)', () => {
    const opaque = fc.string({ unit: fc.constantFrom(...'!#,;*W/\\a3é '.replace(' ', '')), maxLength: 8 });
    const tag = fc.tuple(fc.boolean(), opaque).map(([weak, text]) => `${weak ? 'W/' : ''}"${text}"`);
    const separator = fc.constantFrom(',', ', ', ' ,', ',\t ', ',,', ' , , ');
    fc.assert(
      fc.property(fc.array(fc.tuple(tag, separator), { minLength: 1 }), opaque, (list, text) => {
        const header = list.map((pair) => pair.join('')).join('');
        const tags = list.map(([listed]) => listed);
        const current = `"${text}"`;
        expect(ifMatchHolds(header, current)).toBe(tags.includes(current));
        expect(ifNoneMatchHolds(header, current)).toBe(!tags.includes(current) && !tags.includes(`W/${current}`));
      }),
    );
  });

  it.each([
    ['blanks', ' '.repeat(100_000) + 'x'],
    ['blanks after a tag', '"1"' + ' '.repeat(100_000) + 'x'],
    ['commas', ','.repeat(100_000)],
    ['an open tag', '"' + '!'.repeat(100_000)],
    ['quotes', '"'.repeat(100_001)],
    ['weak marks', 'W/'.repeat(50_000)],
  ])('are quick with %s', (_what, header) => {
    const start = performance.now();
    expect(ifMatchHolds(header, '"3"')).toBe(false);
    expect(ifNoneMatchHolds(header, '"3"')).toBe(true);
    expect(performance.now() - start).toBeLessThan(1000);
  });
});
