import ts from 'typescript';
import { read } from './markdown.js';

/** A test as a page names it: `` `test/a.spec.ts` "what it says", "and what another one says" ``. */
export interface NamedTest {
  readonly file: string;
  readonly titles: readonly string[];
}

/** The tests that a text names. */
export function namedTests(text: string): NamedTest[] {
  const named = text.replace(/\s+/g, ' ').matchAll(/`(test\/[\w./-]+spec\.ts)`((?:,? "[^"]+")*)/g);
  return [...named].map(([, file, quoted]) => ({
    file: file!,
    titles: [...quoted!.matchAll(/"([^"]+)"/g)].map(([, title]) => title!),
  }));
}

const known = new Map<string, string[]>();

/** What stands behind each `describe` and `it` of a spec, tables of cases included. */
export function titlesIn(file: string): string[] {
  let titles = known.get(file);
  if (!titles) known.set(file, (titles = titlesOf(read(file))));
  return titles;
}

function titlesOf(source: string): string[] {
  const titles: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && ['describe', 'it'].includes(calleeOf(node))) {
      const [title] = node.arguments;
      if (title && (ts.isStringLiteralLike(title) || ts.isTemplateExpression(title))) titles.push(textOf(title));
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('spec.ts', source, ts.ScriptTarget.Latest));
  return titles;
}

/** `it` of `it.each([...])('...')`. */
function calleeOf({ expression }: ts.CallExpression): string {
  let callee: ts.Expression = expression;
  while (ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee)) callee = callee.expression;
  return ts.isIdentifier(callee) ? callee.text : '';
}

function textOf(title: ts.StringLiteralLike | ts.TemplateExpression): string {
  if (ts.isStringLiteralLike(title)) return title.text;
  return title.head.text + title.templateSpans.map((span) => `\${}${span.literal.text}`).join('');
}
