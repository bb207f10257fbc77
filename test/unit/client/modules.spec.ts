import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { clientTypes, type Described } from '../../../src/client-types.js';

const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');

describe("the client's types", () => {
  it('are those of openapi.json', () => {
    const made = clientTypes(JSON.parse(read('openapi.json')) as Described);
    if (made !== read('src/client/api-types.ts')) {
      throw new Error('src/client/api-types.ts is out of date: run npm run client:types');
    }
  });

  it.each<[object, string]>([
    [{ type: ['string', 'null'] }, 'string | null'],
    [{ type: 'array', items: { type: ['integer', 'null'] } }, '(number | null)[]'],
    [{ type: 'object', additionalProperties: { type: 'boolean' } }, 'Record<string, boolean>'],
    [{ type: 'object', properties: { a: { enum: ['x', 1] } } }, "{\n    a?: 'x' | 1;\n  }"],
  ])('say what a schema says: %j', (schema, type) => {
    const document = { components: { schemas: { A: { type: 'object', properties: { m: schema } } } }, paths: {} };
    expect(clientTypes(document as Described)).toContain(`m?: ${type};\n`);
  });

  it('are not made of what they cannot say', () => {
    const document = { components: { schemas: { A: { oneOf: [] } } }, paths: {} };
    expect(() => clientTypes(document as unknown as Described)).toThrow('oneOf');
  });
});

describe('the modules of the client', () => {
  const ON_NODE_ONLY = ['directory-lock.ts', 'file-intent-store.ts'];
  const files = readdirSync(new URL('../../../src/client', import.meta.url));
  const importsOf = (file: string) =>
    [...read(`src/client/${file}`).matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map(([, name]) => name!);

  it.each(files)('import each other only, and Node only in the store on disk: %s', (file) => {
    const foreign = importsOf(file).filter((name) => !/^\.\/[a-z-]+\.js$/.test(name));
    if (ON_NODE_ONLY.includes(file)) expect(foreign.every((name) => name.startsWith('node:'))).toBe(true);
    else expect(foreign).toEqual([]);
  });

  it.each(files.filter((file) => !ON_NODE_ONLY.includes(file)))(
    'for browsers do not import the store on disk: %s',
    (file) => {
      expect(importsOf(file).filter((name) => ON_NODE_ONLY.includes(name.slice(2).replace('.js', '.ts')))).toEqual([]);
      expect(read(`src/client/${file}`)).not.toMatch(/\b(process\.|Buffer\b|NodeJS\.|require\()/);
    },
  );
});
