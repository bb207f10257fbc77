import { badParameter, StripeRefusal } from './stripe-refusal.js';

export type FormValue = string | Form;
/** Has no prototype: a caller may name a parameter `__proto__`. */
export interface Form {
  [name: string]: FormValue;
}

const DEEPEST = 6;

/**
 * Reads a query string or form body with brackets for what lies inside: `metadata[order]=1`, `types[]=card`, `types[0]=card`.
 * Lists become forms whose names are `0`, `1`, …
 *
 * @throws StripeRefusal when it is no such form
 */
export function parseForm(text: string): Form {
  const form = emptyForm();
  for (const [name, value] of new URLSearchParams(text)) {
    // Postgres keeps no NUL in its texts.
    if (name.includes('\0') || value.includes('\0'))
      throw badParameter(name.replaceAll('\0', ''), 'Invalid string: it contains NUL');
    put(form, name, pathOf(name), value);
  }
  return form;
}

function put(form: Form, name: string, path: readonly string[], value: string): void {
  let inside = form;
  for (const step of path.slice(0, -1)) {
    const next = (inside[step] ??= emptyForm());
    if (typeof next === 'string') throw badParameter(name, 'Invalid parameter: it is both a value and an object');
    inside = next;
  }
  const last = path.at(-1)!;
  const key = last === '' ? String(Object.keys(inside).length) : last;
  if (typeof inside[key] === 'object') throw badParameter(name, 'Invalid parameter: it is both a value and an object');
  inside[key] = value;
}

function pathOf(name: string): string[] {
  const match = /^([^[\]]+)((?:\[[^[\]]*\])*)$/.exec(name);
  const [first, rest] = [match?.[1], match?.[2]];
  if (first === undefined || rest === undefined) {
    throw new StripeRefusal(400, {
      type: 'invalid_request_error',
      message: `Invalid parameter name: ${name}`,
      param: name,
    });
  }
  const path = [first, ...[...rest.matchAll(/\[([^[\]]*)\]/g)].map(([, step]) => step!)];
  if (path.length > DEEPEST) throw badParameter(name, 'Invalid parameter: it is nested too deeply');
  return path;
}

function emptyForm(): Form {
  return Object.create(null) as Form;
}
