import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';

const MOST_AT_RUN_TIME = 25;

function read(path: string): string {
  return readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
}

type Kind = 'dependencies' | 'optionalDependencies' | 'devDependencies';

const manifest = JSON.parse(read('package.json')) as Record<Kind, Record<string, string>>;
const page = read('docs/dependencies.md');

/** The packages that a section of the page has an entry for: a list item or a table's row that begins with the name. */
function entriesUnder(heading: string): string[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`docs/dependencies.md has no section "${heading}"`);
  return [...section.matchAll(/^[-|] +`([^`]+)`/gm)].map(([, name]) => name!);
}

function installed(kind: Kind): string[] {
  return Object.keys(manifest[kind]).sort();
}

describe('docs/dependencies.md', () => {
  it.each<[string, Kind]>([
    ['Runtime', 'dependencies'],
    ['Optional', 'optionalDependencies'],
    ['Development', 'devDependencies'],
  ])('gives under "%s" exactly the %s, each of them once', (heading, kind) => {
    expect(entriesUnder(heading).sort()).toEqual(installed(kind));
  });

  it('does not call anything refused or held back that is otherwise', () => {
    const all = [...installed('dependencies'), ...installed('optionalDependencies'), ...installed('devDependencies')];
    const refused = entriesUnder('Considered and not taken');
    const heldBack = entriesUnder('Held back');

    expect(refused.length).toBeGreaterThan(0);
    expect(refused.filter((name) => all.includes(name))).toEqual([]);
    expect(heldBack.filter((name) => !all.includes(name))).toEqual([]);
  });

  it(`keeps its word that there are fewer than ${MOST_AT_RUN_TIME} at run time`, () => {
    expect(installed('dependencies').length).toBeLessThan(MOST_AT_RUN_TIME);
  });
});
