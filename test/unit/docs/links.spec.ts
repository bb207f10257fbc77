import { describe, expect, it } from '@jest/globals';
import { exists, pageAt, pages } from './markdown.js';

describe('a relative link', () => {
  const links = pages.flatMap((page) => page.links.map((link) => ({ from: page.path, ...link })));

  it.each(links.map(({ from, path, anchor }) => [from, anchor === undefined ? path : `${path}#${anchor}`]))(
    'in %s leads to %s',
    (_, target) => {
      const [path, anchor] = target.split('#') as [string, string | undefined];
      expect(exists(path)).toBe(true);
      if (anchor !== undefined) expect(pageAt(path).sections.map((section) => section.anchor)).toContain(anchor);
    },
  );
});

describe('docs/', () => {
  it('has no page that a reader of docs/README.md does not come to', () => {
    const reached = new Set(['docs/README.md']);
    for (const path of reached) {
      const page = pages.find((known) => known.path === path);
      for (const link of page?.links ?? []) reached.add(link.path);
    }
    const all = pages.map(({ path }) => path).filter((path) => path.startsWith('docs/'));
    expect(all.filter((path) => !reached.has(path))).toEqual([]);
  });

  it('has each page in the reading order that is no decision', () => {
    const inOrder = pageAt('docs/README.md').links.map(({ path }) => path);
    const own = pages.map(({ path }) => path).filter((path) => /^docs\/[^/]+\.md$/.test(path));
    expect(own.filter((path) => path !== 'docs/README.md' && !inOrder.includes(path))).toEqual([]);
  });
});
