import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { parseStrictJson } from '../../../src/http/strict-json.js';
import { fingerprint, type FingerprintInput, type FingerprintRules } from '../../../src/idempotency/fingerprint.js';

const ORDER_RULES: FingerprintRules = {
  defaults: { 'items[].quantity': 1, metadata: {} },
  volatile: ['clientContext'],
};

const hash = (input: Partial<FingerprintInput>, rules: FingerprintRules = {}): string =>
  fingerprint({ method: 'POST', path: ['v1', 'orders'], query: [], body: undefined, ...input }, rules).toString('hex');
const hashOf = (json: string, rules: FingerprintRules = ORDER_RULES): string =>
  hash({ body: parseStrictJson(Buffer.from(json)) }, rules);

/** JSON values as `parseStrictJson` lets them through. */
const jsonValue = fc
  .jsonValue({ maxDepth: 4, stringUnit: 'binary' })
  .filter((value) => !JSON.stringify(value).includes('__proto__'))
  .map((value) => JSON.parse(JSON.stringify(value)) as unknown);

describe('the fingerprint is the same', () => {
  it('is 32 bytes and stays what it was in earlier releases', () => {
    // SHA-256 of the text 1:4:POST2:2:v16:orders0:0: and its like, made by another program. A change here would
    // answer every stored key's retry with 422: raise FINGERPRINT_VERSION with it.
    expect(hash({})).toBe('e46002fc4033a936351dde03d0a3d158a08ba8708d6afdef90de2c788271cb25');
    expect(hashOf('{"items":[{"sku":"a","quantity":1}],"note":"é"}')).toBe(
      '5fb23d9b4d37f9fe4469105c1aab73380caa10ebe1bd532ec4a36b8fc2801e87',
    );
  });

  it('for another member order, white space, escape or number form', () => {
    const expected = hashOf('{"currency":"EUR","name":"é/","n":100,"z":0}');
    expect(hashOf(' { "z" : -0 ,\n"n":1e2, "name":"\\u00e9\\/", "currency":"\\u0045UR" } ')).toBe(expected);
    expect(hashOf('{"z":0.0,"n":1.00E+2,"currency":"EUR","name":"é/"}')).toBe(expected);
  });

  it('for a default left out or written', () => {
    const short = hashOf('{"items":[{"sku":"a"},{"sku":"b","quantity":2}]}');
    expect(hashOf('{"items":[{"sku":"a","quantity":1},{"sku":"b","quantity":2}],"metadata":{}}')).toBe(short);
    expect(hashOf('{"items":[{"sku":"a","quantity":1.0},{"quantity":2e0,"sku":"b"}]}')).toBe(short);
  });

  it('whatever volatile members hold', () => {
    const expected = hashOf('{"items":[]}');
    for (const context of ['{}', 'null', '{"attempt":2,"at":[1]}', '"x"']) {
      expect(hashOf(`{"clientContext":${context},"items":[]}`)).toBe(expected);
    }
  });

  it('for defaults inside defaults, at any level', () => {
    const rules = { defaults: { shipping: { speed: 'normal' }, 'shipping.speed': 'normal' } };
    const expected = hashOf('{}', rules);
    expect(hashOf('{"shipping":{}}', rules)).toBe(expected);
    expect(hashOf('{"shipping":{"speed":"normal"}}', rules)).toBe(expected);
    expect(hashOf('{"shipping":{"speed":"fast"}}', rules)).not.toBe(expected);
  });

  it('for arrays of arrays that a path goes through', () => {
    const rules = { defaults: { 'grid[][].v': 0 }, volatile: ['a.b[].seen'] };
    expect(hashOf('{"grid":[[{"v":0},{"v":1}],[]]}', rules)).toBe(hashOf('{"grid":[[{},{"v":1}],[]]}', rules));
    expect(hashOf('{"a":{"b":[{"seen":1,"x":2}]}}', rules)).toBe(hashOf('{"a":{"b":[{"x":2}]}}', rules));
  });

  it('for any value whose members are shuffled (property)', () => {
    const reversed = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(reversed);
      if (typeof value !== 'object' || value === null) return value;
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([name, member]) => [name, reversed(member)]),
      );
    };
    fc.assert(
      fc.property(jsonValue, (body) => {
        expect(hash({ body: reversed(body) }, ORDER_RULES)).toBe(hash({ body }, ORDER_RULES));
      }),
    );
  });
});

describe('the fingerprint differs', () => {
  const differ = (...texts: string[]): void => {
    expect(new Set(texts.map((text) => hashOf(text))).size).toBe(texts.length);
  };

  it('for another value, type or order of elements', () => {
    differ('{"a":1}', '{"a":"1"}', '{"a":true}', '{"a":null}', '{"a":[1]}', '{"a":{}}', '{}', '[]', '{"b":1}');
    differ('[1,2]', '[2,1]', '[[1],2]', '[12]', '["1,2"]');
    differ('9007199254740991', '9007199254740992', '9007199254740994');
  });

  it('for composed and decomposed letters', () => {
    differ('{"a":"\u00e9"}', '{"a":"e\u0301"}');
    differ('{"\u00e9":1}', '{"e\u0301":1}');
  });

  it('for a value that is nearly a default', () => {
    differ(
      '{"items":[{}]}',
      '{"items":[{"quantity":"1"}]}',
      '{"items":[{"quantity":true}]}',
      '{"items":[{"quantity":null}]}',
      '{"items":[{"quantity":2}]}',
      '{"items":[{"quantity":[1]}]}',
      '{"items":[{"quantity":{}}]}',
      '{"items":[[{"quantity":1}]]}',
      '{"items":[{"x":{"quantity":1}}]}',
      '{"items":{"quantity":1}}',
      '{"items":[]}',
      '{"items":[null]}',
      '{"items":[{},{}]}',
      '{"quantity":1,"items":[{}]}',
    );
    differ(
      '{}',
      '{"metadata":[]}',
      '{"metadata":null}',
      '{"metadata":""}',
      '{"metadata":{"a":"b"}}',
      '{"Metadata":{}}',
    );
    differ('{}', '{"x":{"clientContext":1}}', '[{"clientContext":1}]', '{"clientcontext":1}');
  });

  it('for members named like things every object inherits', () => {
    differ('{}', '{"constructor":1}', '{"toString":1}', '{"hasOwnProperty":1}', '{"toJSON":1}', '{"valueOf":{}}');
    expect(hashOf('{}', { defaults: { toString: 1 } })).toBe(hashOf('{"toString":1}', { defaults: { toString: 1 } }));
    expect(hashOf('{}', { defaults: { 'constructor.name': 'Object' } })).toBe(hashOf('{}', {}));
  });

  it('for no body and every kind of empty body', () => {
    const hashes = [undefined, null, '', 0, false, {}, [], '0:', 'null'].map((body) => hash({ body }));
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  it('for a change at the end of a 90 kB body', () => {
    const body = (end: string): string => JSON.stringify({ a: 'x'.repeat(90_000), b: end });
    differ(body('1'), body('2'));
  });

  it('for another method, path or query', () => {
    const inputs: Partial<FingerprintInput>[] = [
      {},
      { method: 'PUT' },
      { path: ['v1', 'orders', 'a'] },
      { path: ['v1/orders'] },
      { path: ['v1', 'orders', ''] },
      { path: ['v1orders'] },
      { path: ['v1', 'Orders'] },
      { query: [['to', 'x']] },
      { query: [['to', 'y']] },
      { query: [['to', '']] },
      { query: [['', 'to']] },
      { query: [['tox', '']] },
      {
        query: [
          ['to', 'x'],
          ['to', 'x'],
        ],
      },
      {
        query: [
          ['to', 'x'],
          ['a', 'b'],
        ],
      },
      {
        query: [
          ['a', 'b'],
          ['to', 'x'],
        ],
      },
    ];
    expect(new Set(inputs.map((input) => hash(input))).size).toBe(inputs.length);
  });

  it('whenever any part differs, however the parts are cut (property)', () => {
    // Few characters, and those of the framing itself, so that parts run into each other as often as they can.
    const text = fc.string({ unit: fc.constantFrom(...'01:é"'), maxLength: 4 });
    const input = fc.record({
      method: text,
      path: fc.array(text, { maxLength: 3 }),
      query: fc.array(fc.tuple(text, text), { maxLength: 2 }),
      body: fc.option(fc.oneof(text, fc.array(text, { maxLength: 2 }), fc.constant(null)), {
        nil: undefined,
      }),
    });
    fc.assert(
      fc.property(input, input, (a, b) => {
        const same =
          JSON.stringify([a.method, a.path, a.query, a.body]) === JSON.stringify([b.method, b.path, b.query, b.body]) &&
          (a.body === undefined) === (b.body === undefined);
        expect(hash(a) === hash(b)).toBe(same);
      }),
      { numRuns: 2000 },
    );
  });

  it('whenever two bodies differ as values (property)', () => {
    fc.assert(
      fc.property(jsonValue, jsonValue, (a, b) => {
        const canonicalOf = (value: unknown): string =>
          JSON.stringify(value, (_name, member: unknown) =>
            typeof member === 'object' && member !== null && !Array.isArray(member)
              ? Object.entries(member).sort(([x], [y]) => (x < y ? -1 : 1))
              : Array.isArray(member)
                ? ['array', ...member]
                : member,
          );
        expect(hash({ body: a }) === hash({ body: b })).toBe(canonicalOf(a) === canonicalOf(b));
      }),
    );
  });
});

describe('the fingerprint leaves alone', () => {
  it('the body it is given, at every level', () => {
    const body = {
      items: [{ sku: 'a', quantity: 1 }, { quantity: 2 }],
      metadata: {},
      clientContext: { a: 1 },
    };
    const before = structuredClone(body);
    hash({ body }, ORDER_RULES);
    expect(body).toEqual(before);
  });

  it('wrong types along a path', () => {
    const rules = {
      defaults: { 'items[].quantity': 1, 'a.b.c': 1, 'list[][].x': 1 },
      volatile: ['v.w', 'v[].w'],
    };
    const odd = 'null 1 "x" true [] {} [null] [1,"x",[{}]] {"quantity":null} {"b":[{"c":1}]}'.split(' ');
    for (const value of odd) {
      const json = `{"items":${value},"a":${value},"list":${value},"v":${value}}`;
      expect(hashOf(json, rules)).toBe(hashOf(json, {}));
      expect(hashOf(value, rules)).toBe(hashOf(value, {}));
    }
  });

  it('anything, with any body: rules never throw (property)', () => {
    const name = fc.constantFrom('items', 'quantity', 'metadata', 'clientContext', 'constructor');
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(null, 1, '1', true),
        fc.array(tie('tree')),
        fc.dictionary(name, tie('tree')),
      ),
    }));
    fc.assert(
      fc.property(tree, (body) => {
        const before = JSON.stringify(body);
        expect(hash({ body }, ORDER_RULES)).toHaveLength(64);
        expect(JSON.stringify(body)).toBe(before);
      }),
    );
  });
});

describe('a malformed rule', () => {
  it.each(['', '.', 'a.', 'a..b', '[]', 'a[', 'a]b', 'a[0]', 'a[]', 'a.b[]'])('%j is a programming error', (path) => {
    expect(() => hash({ body: {} }, { volatile: [path] })).toThrow(TypeError);
    expect(() => hash({ body: {} }, { defaults: { [path]: 1 } })).toThrow(TypeError);
  });
});
