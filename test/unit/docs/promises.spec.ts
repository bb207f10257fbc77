import { describe, expect, it } from '@jest/globals';
import { exists, filesBelow, pageAt, pages, read } from './markdown.js';
import { namedTests, titlesIn } from './test-titles.js';

const numbered = (letter: string, count: number) => Array.from({ length: count }, (_, n) => `${letter}${n + 1}`);
const IDS = [...numbered('M', 43), ...numbered('B', 9)];

interface Promised {
  readonly id: string;
  readonly text: string;
}

const list = pageAt('docs/promises.md');
const promises: Promised[] = list.prose
  .split(/^- \*\*(?=[A-Z]+\d+\*\*)/m)
  .slice(1)
  .map((text) => ({ id: /^\w+/.exec(text)![0], text }));

/** What the linked page, or its section, says about a promise. */
function explanationOf(id: string): string {
  const { text } = promises.find((promise) => promise.id === id)!;
  const [target, anchor] = /\]\(([^)]+)\)/.exec(text)![1]!.split('#') as [string, string | undefined];
  const page = pageAt(`docs/${target}`);
  const explanation = anchor === undefined ? page.prose : page.section(anchor)!.text;
  return explanation.replace(/\s+/g, ' ');
}

describe('docs/promises.md', () => {
  it('has every promise once, in order, and no other', () => {
    expect(promises.map(({ id }) => id)).toEqual(IDS);
  });

  it.each(IDS)('says what %s is, and leads to where that is explained', (id) => {
    expect(promises.find((promise) => promise.id === id)!.text.length).toBeGreaterThan(60);
    expect(explanationOf(id)).toMatch(new RegExp(`\\b${id}\\b`));
  });

  it.each(IDS)('leads for %s to how it is kept, when not to use it, and which test proves it', (id) => {
    const explanation = explanationOf(id);
    for (const question of ['How.', 'When not.', 'Test.']) expect(explanation).toContain(`**${question}**`);
    expect(explanation).toMatch(/`(src|migrations|test|\.ci)\//);
    expect(namedTests(explanation.slice(explanation.indexOf('**Test.**')))).not.toEqual([]);
  });

  it.each(IDS)('names for %s a test that exists', (id) => {
    const tests = namedTests(promises.find((promise) => promise.id === id)!.text);
    expect(tests.flatMap(({ titles }) => titles)).not.toEqual([]);
  });
});

describe('a test that a page names', () => {
  const named = pages.flatMap(({ path, prose, makes }) =>
    namedTests(prose)
      .filter(({ file }) => !makes.includes(file))
      .map((test) => ({ page: path, ...test })),
  );

  it.each(named.map(({ page, file, titles }) => [page, file, titles] as const))(
    'in %s is in %s: %j',
    (_, file, titles) => {
      expect(exists(file)).toBe(true);
      for (const title of titles) expect(titlesIn(file).filter((known) => known.includes(title))).not.toEqual([]);
    },
  );
});

describe('M40: every end-to-end test of a promise counts what there is', () => {
  /** Where something is done that could happen twice. */
  const FOLDERS = 'broker client faults feeds idempotency long messaging notifications orders payments'.split(' ');
  /** Rows, effects and calls at a provider, requests and mails at somebody else's server; a struck run counts all of them. */
  const COUNTS = /\b(counts?|effects|calls)\(|\bcount\(\*\)|\bSELECT\b.*\bFROM\b|\.requests\b|\.mails\b|\.strikeAll\(/;
  /** In which nothing is done that could happen twice. */
  const NOTHING_DONE = [
    'test/client/package.e2e-spec.ts', // imports a package
    'test/faults/waits.e2e-spec.ts', // counts waits on the wire
    'test/idempotency/boot.e2e-spec.ts', // the service does not start
    'test/idempotency/openapi.e2e-spec.ts',
  ];
  const specs = FOLDERS.flatMap((folder) => filesBelow(`test/${folder}`, 'e2e-spec.ts'));

  it.each(specs.filter((spec) => !NOTHING_DONE.includes(spec)))('%s', (spec) => {
    expect(read(spec)).toMatch(COUNTS);
  });

  it.each(NOTHING_DONE)('but for one that does nothing: %s', (spec) => {
    expect(specs).toContain(spec);
    expect(read(spec)).not.toMatch(COUNTS);
  });
});
