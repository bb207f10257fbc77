import { hash } from 'node:crypto';
import canonicalize from 'canonicalize';

/**
 * The version of the algorithm, stored beside each fingerprint. Raise it with every change that gives a request
 * other bytes; records of another version cannot be compared, so their retries must not be answered with 422.
 */
export const FINGERPRINT_VERSION = 1;

/** What of a request makes it "the same request". */
export interface FingerprintInput {
  /** As Node gives it: upper case. */
  method: string;
  /** The concrete path's segments, percent-decoded, ids in lower case. */
  path: readonly string[];
  /** Names and values, decoded, in the order they arrived; another order is another request. */
  query: readonly (readonly [name: string, value: string])[];
  /** What `parseStrictJson` returned (no lone surrogates, no `__proto__`), or undefined when there is no body. */
  body: unknown;
}

/**
 * What of a body does not count. Paths are member names joined by dots; `[]` behind a name goes through the
 * elements of an array: `clientContext`, `items[].quantity`. What a path does not find, or finds with
 * another type on the way, is left as it is.
 */
export interface FingerprintRules {
  /** Path to the value that stands for "left out": a member equal to it (as canonical JSON) is taken out. */
  defaults?: Readonly<Record<string, unknown>>;
  /** Paths of members that are taken out whatever they hold. */
  volatile?: readonly string[];
}

/**
 * The SHA-256 by which a repeated request is told from another one under the same key. The same: member order,
 * white space, escapes, the spelling of a number (`1e2`, `100`), a default left out or written, volatile members.
 * Everything else differs, composed and decomposed letters included: RFC 8785 section 3.1 forbids to normalise.
 *
 * `input.body` is not changed. Rules are compiled once per `rules` object, so keep one per route.
 *
 * @returns 32 bytes.
 * @throws TypeError when a path in `rules` is malformed: a programming error, seen at the first call.
 */
export function fingerprint(input: FingerprintInput, rules: FingerprintRules): Buffer {
  // Each part as length:bytes, each list behind its length: no two requests are joined into the same bytes.
  let framed = `${FINGERPRINT_VERSION}:${frame(input.method)}${input.path.length}:`;
  for (const segment of input.path) framed += frame(segment);
  framed += `${input.query.length}:`;
  for (const [name, value] of input.query) framed += frame(name) + frame(value);
  // "No body" is a list of none; any body, null and "" included, a list of one.
  framed += input.body === undefined ? '0:' : `1:${frame(canonical(reduce(input.body, compiled(rules))))}`;
  return hash('sha256', framed, 'buffer');
}

/**
 * The SHA-256 of one JSON value as {@link fingerprint} sees a body: for whoever has to tell values apart without a request
 * around them. It belongs to {@link FINGERPRINT_VERSION} as well.
 *
 * @returns 32 bytes.
 */
export function contentHash(value: unknown, rules: FingerprintRules): Buffer {
  return hash('sha256', canonical(reduce(value, compiled(rules))), 'buffer');
}

function frame(part: string): string {
  return `${Buffer.byteLength(part, 'utf8')}:${part}`;
}

/** RFC 8785. */
function canonical(value: unknown): string {
  const text = canonicalize(value);
  if (text === undefined) throw new TypeError('Not a JSON value');
  return text;
}

/** The rules as a tree that is walked beside the body, so that only what they name is looked at or copied. */
interface Rule {
  members: Map<string, Rule>;
  elements?: Rule;
  volatile?: true;
  default?: { value: unknown; canonical: string };
}

const compiledRules = new WeakMap<FingerprintRules, Rule>();

function compiled(rules: FingerprintRules): Rule {
  let root = compiledRules.get(rules);
  if (root === undefined) {
    root = compile(rules);
    compiledRules.set(rules, root);
  }
  return root;
}

function compile({ defaults = {}, volatile = [] }: FingerprintRules): Rule {
  const root: Rule = { members: new Map() };
  for (const path of volatile) ruleAt(root, path).volatile = true;
  // Longest paths first: a default is itself reduced by the rules inside it, as the member that it is compared with is.
  const paths = Object.keys(defaults).sort((a, b) => b.length - a.length);
  for (const path of paths) {
    const rule = ruleAt(root, path);
    const value = reduce(defaults[path], rule);
    rule.default = { value, canonical: canonical(value) };
  }
  return root;
}

function ruleAt(root: Rule, path: string): Rule {
  let rule = root;
  for (const step of path.split('.')) {
    const name = step.replace(/(\[\])*$/, '');
    if (name === '' || /[[\]]/.test(name)) throw new TypeError(`Malformed fingerprint path: ${path}`);
    let next = rule.members.get(name);
    if (next === undefined) rule.members.set(name, (next = { members: new Map() }));
    rule = next;
    for (let rest = step.length - name.length; rest > 0; rest -= 2) rule = rule.elements ??= { members: new Map() };
  }
  if (path.endsWith(']')) throw new TypeError(`A fingerprint path names a member, not elements: ${path}`);
  return rule;
}

/** `value` without what the rules take out; the same object where nothing is, a copy along the way otherwise. */
function reduce(value: unknown, rule: Rule): unknown {
  if (Array.isArray(value)) return rule.elements ? reduceElements(value, rule.elements) : value;
  if (typeof value !== 'object' || value === null) return value;

  const object = value as Record<string, unknown>;
  let copy: Record<string, unknown> | undefined;
  for (const [name, member] of rule.members) {
    if (!Object.hasOwn(object, name)) continue;
    const before = object[name];
    const after = member.volatile ? undefined : reduce(before, member);
    if (member.volatile || isDefault(after, member)) {
      copy ??= { ...object };
      delete copy[name];
    } else if (after !== before) {
      copy ??= { ...object };
      copy[name] = after;
    }
  }
  return copy ?? value;
}

function reduceElements(elements: unknown[], rule: Rule): unknown[] {
  let copy: unknown[] | undefined;
  for (const [index, before] of elements.entries()) {
    const after = reduce(before, rule);
    if (after !== before) (copy ??= [...elements])[index] = after;
  }
  return copy ?? elements;
}

function isDefault(value: unknown, rule: Rule): boolean {
  if (rule.default === undefined) return false;
  const expected = rule.default.value;
  if (typeof value !== 'object' || value === null) return value === expected;
  if (typeof expected !== 'object' || expected === null) return false;
  // Spares writing out a large member only to see that it is not `{}`.
  if (Object.keys(value).length !== Object.keys(expected).length) return false;
  return canonical(value) === rule.default.canonical;
}
