import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { MalformedJsonError, MAX_JSON_DEPTH, parseStrictJson } from '../../../src/http/strict-json.js';

const parse = (text: string): unknown => parseStrictJson(Buffer.from(text, 'utf8'));
const refusal = (input: string | Uint8Array): MalformedJsonError => {
  try {
    parseStrictJson(typeof input === 'string' ? Buffer.from(input, 'utf8') : input);
  } catch (error) {
    if (error instanceof MalformedJsonError) return error;
    throw error;
  }
  throw new Error(`Accepted: ${String(input).slice(0, 80)}`);
};
const nested = (levels: number, open = '[', close = ']'): string => open.repeat(levels) + '1' + close.repeat(levels);
const milliseconds = (work: () => unknown): number => {
  const start = performance.now();
  work();
  return performance.now() - start;
};

describe('strict JSON accepts', () => {
  it('what JSON.parse accepts, with the same value', () => {
    const text = ' {"a":[1,-2.5,"é\\u00e9\\n\\/",true,false,null,{}],"b":{"a":"😀\\ud83d\\ude00"},"":[]}\r\n\t';
    expect(parse(text)).toEqual(JSON.parse(text));
  });

  it('top-level scalars', () => {
    expect(['1', '"x"', 'null', 'true'].map(parse)).toEqual([1, 'x', null, true]);
  });

  it('members named like things every object inherits', () => {
    expect(parse('{"constructor":1,"toString":2,"hasOwnProperty":3,"prototype":4}')).toEqual({
      constructor: 1,
      toString: 2,
      hasOwnProperty: 3,
      prototype: 4,
    });
  });

  it('the same name in different objects', () => {
    expect(parse('{"a":{"a":1},"b":[{"a":1},{"a":2}]}')).toEqual({ a: { a: 1 }, b: [{ a: 1 }, { a: 2 }] });
  });

  it('a byte order mark inside a string, where it is a character', () => {
    expect(parse('"\uFEFFx"')).toBe('\uFEFFx');
  });

  it('anything that JSON.stringify writes (property)', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 6, stringUnit: 'binary' }), (text) => {
        fc.pre(!text.includes('\\u0000') && !text.includes('__proto__'));
        expect(parse(text)).toEqual(JSON.parse(text));
      }),
    );
  });
});

describe('strict JSON refuses bytes that are no text', () => {
  it.each([
    ['a cut sequence', [0x22, 0xc3, 0x22]],
    ['an overlong form', [0x22, 0xc0, 0xaf, 0x22]],
    ['an encoded surrogate', [0x22, 0xed, 0xa0, 0x80, 0x22]],
    ['Latin-1', [0x22, 0xe9, 0x22]],
    ['UTF-16', [0xff, 0xfe, 0x31, 0x00]],
  ])('%s', (_what, bytes) => {
    expect(refusal(Uint8Array.from(bytes)).message).toBe('The body is not valid UTF-8.');
  });

  it('a leading byte order mark', () => {
    expect(refusal('\uFEFF{}').message).toMatch(/byte order mark/);
  });
});

describe('strict JSON refuses what is not JSON', () => {
  it.each([
    ['', 'it ends too early'],
    ['{"a":1', 'it ends too early'],
    ['{"a":1,}', 'from position 7 on'],
    ['[1,2,]', 'from position 5 on'],
    ['{"a":1}x', 'from position 7 on'],
    ['{"a":1}{}', 'from position 7 on'],
    ['{"a": 1 /* one */}', 'from position 8 on'],
    ['// one\n1', 'from position 0 on'],
    ["{'a':1}", 'from position 1 on'],
    ['{a:1}', 'from position 1 on'],
    ['[01]', 'from position 2 on'],
    ['[1.]', 'from position 1 on'],
    ['[+1]', 'from position 1 on'],
    ['NaN', 'from position 0 on'],
    ['-', 'from position 0 on'],
    ['["a\\x"]', 'from position 1 on'],
    ['["a\nb"]', 'from position 1 on'],
    ['["\u0000"]', 'from position 1 on'],
    ['\u0000', 'from position 0 on'],
  ])('%j', (text, where) => {
    expect(refusal(text).message).toBe(`The body is not JSON: ${where}.`);
  });

  it('blanks that JSON does not know', () => {
    expect(refusal('\u00a0{}')).toBeInstanceOf(MalformedJsonError);
    expect(refusal('{\v}')).toBeInstanceOf(MalformedJsonError);
  });

  it('any text at all that JSON.parse refuses, with our own error (property)', () => {
    const soup = fc.string({ unit: fc.constantFrom(...'{}[]",:\\/*-+.019eEtrufalsn \n\t'), maxLength: 40 });
    fc.assert(
      fc.property(soup, (text) => {
        try {
          JSON.parse(text);
        } catch {
          refusal(text);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

describe('strict JSON refuses a member that appears twice', () => {
  it.each([
    ['{"a":1,"a":2}', '/a', 7],
    ['{"a":1,"b":2,"a":1}', '/a', 13],
    ['{"a":1,"\\u0061":2}', '/a', 7],
    ['{"x":[0,{"é":1,"\\u00e9":2}]}', '/x/1/é', 15],
    ['{"":1,"":2}', '/', 6],
    ['{"a/b~c":1,"a/b~c":2}', '/a~1b~0c', 11],
    ['{"constructor":1,"constructor":2}', '/constructor', 17],
  ])('%s', (text, pointer, position) => {
    expect(refusal(text).message).toBe(`A member appears twice at ${pointer}, position ${position}.`);
  });

  it('but not two names that only look alike', () => {
    expect(parse('{"\u00e9":1,"e\u0301":2}')).toEqual({ '\u00e9': 1, 'e\u0301': 2 });
  });

  it('with a message of bounded length', () => {
    const name = 'n'.repeat(40_000);
    expect(refusal(`{"${name}":1,"${name}":2}`).message.length).toBeLessThan(250);
  });
});

describe('strict JSON refuses a number that a double cannot carry', () => {
  it.each([
    '9007199254740993',
    '-9007199254740993',
    '1e400',
    '-1e400',
    '1e-400',
    '0.30000000000000004441',
    '0.1000000000000000055511151231257827',
    '4.9406564584124654e-324',
    '1.7976931348623159e308',
    '123456789012345678901234567890',
    '1e99999999999999999999',
    '1e-99999999999999999999',
    `1e${'9'.repeat(500)}`,
  ])('%s', (number) => {
    expect(refusal(`{"items":[{"n":${number}}]}`).message).toBe(
      'A number changes its value when read as a double at /items/0/n, position 15.',
    );
  });

  const carried =
    '0 -0 0.0 -0.000e7 0e99999 0e-99999999999999999999 1 100 1e2 1E+2 1.10 0.1 10e-2 -2.50 0.30000000000000004 ' +
    '9007199254740991 9007199254740992 9007199254740994 1e21 1000000000000000000000 123456789e-3 0.000001 ' +
    '0.0000001 1e-7 5e-324 1.7976931348623157e308 1e023 1e-0002';
  it.each([
    ...carried.split(' '),
    `1${'0'.repeat(300)}`,
    `1${'0'.repeat(9000)}e-9000`,
    `0.${'0'.repeat(9000)}1e9001`,
    `1.${'0'.repeat(9000)}`,
  ])('but not %s', (number) => {
    expect(parse(number)).toBe(Number(number) + 0); // 0 for -0
  });

  it('exactly when the decimal values differ (property, against BigInt arithmetic)', () => {
    const digits = fc.string({ unit: fc.constantFrom(...'0123459'), minLength: 1, maxLength: 22 });
    const number = fc
      .tuple(fc.boolean(), digits, fc.option(digits, { nil: '' }), fc.option(fc.integer({ min: -30, max: 30 })))
      .map(([minus, whole, fraction, exponent]) => {
        const integer = whole.replace(/^0+(?=\d)/, '');
        return `${minus ? '-' : ''}${integer}${fraction && `.${fraction}`}${exponent === null ? '' : `e${exponent}`}`;
      });
    // Both values scaled by 10^400, where they are integers.
    const scaled = (text: string): bigint => {
      const [, minus, whole = '', fraction = '', exponent = '0'] =
        /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(text) ?? [];
      const size = BigInt(whole + fraction) * 10n ** BigInt(400 + Number(exponent) - fraction.length);
      return minus === '-' ? -size : size;
    };
    fc.assert(
      fc.property(number, (text) => {
        if (scaled(text) === scaled(String(Number(text)))) expect(parse(text)).toBe(Number(text) + 0);
        else refusal(text);
      }),
      { numRuns: 2000 },
    );
  });

  it('any double, written as ECMAScript writes it, passes (property)', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        expect(parse(String(value))).toBe(value + 0);
        expect(parse(value.toExponential().toUpperCase())).toBe(value + 0);
      }),
    );
  });
});

describe('strict JSON refuses text that cannot be stored or hashed', () => {
  it.each([
    ['["\\ud800"]', 'A string contains a lone surrogate at /0, position 1.'],
    ['{"a":"x\\udc00y"}', 'A string contains a lone surrogate at /a, position 5.'],
    ['"\\ude00\\ud83d"', 'A string contains a lone surrogate at the top level, position 0.'],
    ['{"a":{"\\ud800":1}}', 'A member name contains a lone surrogate at /a, position 6.'],
    ['{"a":"\\u0000"}', 'A string contains the NUL character at /a, position 5.'],
    ['[{"x\\u0000":1}]', 'A member name contains the NUL character at /0, position 2.'],
    ['{"__proto__":{}}', 'A member is named __proto__ at the top level, position 1.'],
    ['{"a":[{"\\u005f_proto__":1}]}', 'A member is named __proto__ at /a/0, position 7.'],
  ])('%s', (text, message) => {
    expect(refusal(text).message).toBe(message);
  });

  it('but not __proto__ or an escaped backslash as a value', () => {
    expect(parse('["__proto__","\\\\u0000"]')).toEqual(['__proto__', '\\u0000']);
  });
});

describe('strict JSON under attack', () => {
  it(`takes a nesting of ${MAX_JSON_DEPTH} and refuses one more`, () => {
    expect(() => parse(nested(32))).not.toThrow();
    expect(() => parse(nested(32, '{"a":', '}'))).not.toThrow();
    expect(() => parse(nested(16, '[{"a":', '}]'))).not.toThrow();
    expect(refusal(nested(33)).message).toBe('Nesting deeper than 32 at position 32.');
    expect(refusal(nested(33, '{"a":', '}')).message).toBe('Nesting deeper than 32 at position 160.');
    expect(refusal('['.repeat(32) + '{}' + ']'.repeat(32)).message).toBe('Nesting deeper than 32 at position 32.');
  });

  it('counts nesting, not containers', () => {
    expect(() => parse(`[${'[],{},'.repeat(5000)}[]]`)).not.toThrow();
  });

  it.each([
    ['arrays', nested(45_000)],
    ['objects', nested(18_000, '{"":', '}')],
    ['open arrays', '['.repeat(100_000)],
    ['open objects', '{"":'.repeat(25_000)],
  ])('survives deep %s', (_what, text) => {
    expect(refusal(text).message).toMatch(/^Nesting deeper than 32/);
  });

  // A quadratic step takes minutes on 100 kB; the bound is wide enough for a busy machine.
  it.each([
    ['a number of many digits', '1'.repeat(90_000)],
    ['a number of many zeros', `1${'0'.repeat(90_000)}`],
    ['many leading and inner zeros', `0.${'0'.repeat(45_000)}1${'0'.repeat(45_000)}1`],
    ['a long exponent', `1e${'0'.repeat(90_000)}2`],
    ['many small numbers', `[${'1e-9,'.repeat(20_000)}1]`],
    ['many names', `{${Array.from({ length: 10_000 }, (_, i) => `"${i}":0`).join(',')}}`],
    ['many objects', `[${'{},'.repeat(33_000)}{}]`],
    ['one long string', `"${'a'.repeat(100_000)}"`],
    ['many escapes', `"${'\\u0061'.repeat(16_000)}"`],
    ['many backslashes', `"${'\\\\'.repeat(50_000)}"`],
    ['blanks', ' '.repeat(100_000)],
    ['line breaks', `${'\r\n'.repeat(50_000)}1`],
    ['an open string', `"${'\\'.repeat(99_999)}`],
    ['an open comment', `/*${'*'.repeat(99_999)}`],
    ['words', 'a '.repeat(50_000)],
    ['commas', ','.repeat(100_000)],
    ['quotes', '"'.repeat(100_000)],
  ])('is quick with %s', (_what, text) => {
    const taken = milliseconds(() => {
      try {
        parse(text);
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedJsonError);
      }
    });
    expect(taken).toBeLessThan(1000);
  });
});
