import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const NOT_OURS = new Set(['node_modules', 'dist', 'coverage']);

export const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
export const exists = (path: string): boolean => existsSync(join(ROOT, path));

/** Paths of the files of the repository below a folder, from its root; hidden folders apart. */
export function filesBelow(folder: string, ending: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (!entry.isDirectory()) return entry.name.endsWith(ending) ? [path] : [];
    return entry.name.startsWith('.') || NOT_OURS.has(entry.name) ? [] : filesBelow(path, ending);
  });
}

export interface Section {
  readonly anchor: string;
  /** Up to the next heading of the same level or a higher one, its own heading included. */
  readonly text: string;
}

export interface Link {
  /** From the root of the repository; that of the page itself for a link within it. */
  readonly path: string;
  /** What follows the `#`. */
  readonly anchor: string | undefined;
}

/** A markdown file: what it says outside of blocks of code, where it leads and where one can be led in it. */
export class Page {
  readonly prose: string;
  readonly sections: readonly Section[];
  readonly links: readonly Link[];
  /** Files that its reader is to make, or to change: each stands alone on a line, before its content. */
  readonly makes: readonly string[];

  constructor(readonly path: string) {
    const text = read(path);
    this.makes = [...text.matchAll(/^`([\w./-]+)`:$/gm)].map(([, made]) => made!);
    this.prose = text.replace(/^( *)```.*?^\1```$/gms, '');
    this.sections = sectionsOf(this.prose);
    // Behind inline code, which may look like a link.
    const targets = [...this.prose.replace(/`[^`]*`/g, '').matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
    this.links = targets.filter((target) => !/^[a-z]+:/.test(target)).map((target) => this.resolve(target));
  }

  section(anchor: string): Section | undefined {
    return this.sections.find((section) => section.anchor === anchor);
  }

  private resolve(target: string): Link {
    const [file, anchor] = target.split('#') as [string, string | undefined];
    return { path: file === '' ? this.path : normalize(join(dirname(this.path), file)), anchor };
  }
}

/** Every markdown file of the repository. */
export const pages: readonly Page[] = filesBelow('.', '.md').map((path) => new Page(path));

export function pageAt(path: string): Page {
  const page = pages.find((known) => known.path === path);
  if (!page) throw new Error(`There is no page ${path}`);
  return page;
}

function sectionsOf(prose: string): Section[] {
  const given = new Map<string, number>();
  const headings = [...prose.matchAll(/^(#{1,6}) (.+)$/gm)];
  return headings.map((heading, n) => {
    const level = heading[1]!.length;
    const next = headings.slice(n + 1).find((other) => other[1]!.length <= level);
    const slug = slugOf(heading[2]!);
    const before = given.get(slug) ?? 0;
    given.set(slug, before + 1);
    return { anchor: before === 0 ? slug : `${slug}-${before}`, text: prose.slice(heading.index, next?.index) };
  });
}

/** The anchor that GitHub gives a heading: without markup and punctuation, in lower case, blanks as hyphens. */
function slugOf(heading: string): string {
  return heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '')
    .trim()
    .replaceAll(' ', '-');
}
