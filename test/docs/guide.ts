import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * A fenced block of a page, by what it asks of its reader: write this file, change that one, type these commands, expect
 * this output.
 */
export type Block = { readonly heading: string; readonly text: string } & (
  { readonly kind: 'file' | 'diff'; readonly path: string } | { readonly kind: 'commands' | 'output' }
);

/** What to type, and what the page says comes of it. */
export interface Step {
  readonly script: string;
  /** Lines; empty where the page shows none. */
  readonly printed: readonly string[];
}

const LANGUAGES = ['ts', 'json', 'diff', 'sh', ''];

/**
 * A page of `docs/` that is followed to the letter. In it a line that ends in a path in backticks and a colon names the
 * file of the next block: a `diff` is applied to it, anything else is its whole content. `sh` are commands, and a block
 * without a language is what is printed. There are no other blocks: none that only looks like code.
 */
export class Guide {
  private constructor(readonly blocks: readonly Block[]) {}

  static async read(page: string): Promise<Guide> {
    return new Guide(blocksOf(await readFile(`${ROOT}/${page}`, 'utf8')));
  }

  /** The part of the page under the heading that begins so. */
  under(heading: string): Guide {
    const blocks = this.blocks.filter((block) => block.heading.startsWith(heading));
    if (blocks.length === 0) throw new Error(`The page has no block under "${heading}"`);
    return new Guide(blocks);
  }

  /** All of the page that is not under the heading that begins so. */
  without(heading: string): Guide {
    return new Guide(this.blocks.filter((block) => !block.heading.startsWith(heading)));
  }

  /** The files to write and to change, in the order of the page. */
  get edits(): Extract<Block, { path: string }>[] {
    return this.blocks.filter((block) => 'path' in block);
  }

  get steps(): Step[] {
    return this.blocks.flatMap((block, index) => {
      if (block.kind !== 'commands') return [];
      const next = this.blocks[index + 1];
      return [{ script: block.text, printed: next?.kind === 'output' ? next.text.trimEnd().split('\n') : [] }];
    });
  }
}

function blocksOf(page: string): Block[] {
  const blocks: Block[] = [];
  let heading = '';
  let before = '';
  const lines = page.split('\n');
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!;
    if (line.startsWith('## ')) heading = line.slice(3);
    if (!line.startsWith('```')) {
      if (line !== '') before = line;
      continue;
    }
    const end = lines.indexOf('```', at + 1);
    if (end < 0) throw new Error(`The block in line ${at + 1} has no end`);
    const text = `${lines.slice(at + 1, end).join('\n')}\n`;
    blocks.push({ heading, text, ...kindOf(line.slice(3), /`([^`]+)`:$/.exec(before)?.[1], at + 1) });
    before = '';
    at = end;
  }
  return blocks;
}

function kindOf(language: string, path: string | undefined, line: number) {
  if (!LANGUAGES.includes(language)) throw new Error(`Line ${line}: nobody knows what to do with "${language}"`);
  if (language === 'sh') return { kind: 'commands' } as const;
  if (language === '') return { kind: 'output' } as const;
  if (path === undefined) throw new Error(`Line ${line}: the page does not say which file this is`);
  return { kind: language === 'diff' ? 'diff' : 'file', path } as const;
}

/**
 * Changes a text as a diff says. Each part (between lines `@@`) must be found once, in the order of the file: no line of
 * context may differ.
 *
 * @throws Error that shows the part which does not fit
 */
export function applyDiff(text: string, diff: string): string {
  let done = '';
  let rest = text;
  for (const part of diff.split(/^@@.*\n/m)) {
    const lines = part.split('\n').slice(0, -1);
    const side = (dropped: string) =>
      lines
        .filter((line) => !line.startsWith(dropped))
        .map((line) => `${line.slice(1)}\n`)
        .join('');
    const [old, changed] = [side('+'), side('-')];
    const places = `\n${rest}`.split(`\n${old}`).length - 1;
    if (old === '' || places !== 1) throw new Error(`This part of the diff fits ${places} places:\n${part}`);
    const at = `\n${rest}`.indexOf(`\n${old}`);
    done += rest.slice(0, at) + changed;
    rest = rest.slice(at + old.length);
  }
  return done + rest;
}

const VARYING = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z/g;

/** Compares what is printed with what a page shows. Ids and times of the page stand for others, each always for the same. */
export class Printed {
  private readonly known = new Map<string, string>();

  /**
   * @returns the first line of the page that is not in the output, behind those before it; `undefined` when all are.
   * ` ... ` in a line stands for anything.
   */
  missing(printed: readonly string[], output: string): string | undefined {
    const actual = output.split(/\r?\n/);
    let from = 0;
    for (const line of printed) {
      const at = actual.findIndex((candidate, index) => index >= from && this.matches(line, candidate));
      if (at < 0) return line;
      from = at + 1;
    }
    return undefined;
  }

  private matches(line: string, candidate: string): boolean {
    const names = [...line.matchAll(VARYING)].map(([name]) => name);
    const pattern = line
      .split(VARYING)
      .map((literal) => literal.split(' ... ').map(literally).join('.*'))
      .join(`(${VARYING.source})`);
    const found = new RegExp(`^${pattern}$`).exec(candidate)?.slice(1);
    if (!found) return false;
    const isSame = names.every((name, index) => (this.known.get(name) ?? found[index]) === found[index]);
    if (isSame) names.forEach((name, index) => this.known.set(name, found[index]!));
    return isSame;
  }
}

function literally(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\/]/g, '\\$&');
}
