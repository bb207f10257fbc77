import type { Form, FormValue } from './form.js';
import { badParameter } from './stripe-refusal.js';

const MOST_METADATA = 50;

/** Parameters of a request, read one by one; what is wrong with one is refused in Stripe's words. */
export class Parameters {
  /** @throws StripeRefusal when there is one that is not known */
  constructor(
    readonly form: Form,
    known: readonly string[],
  ) {
    const unknown = Object.keys(form).find((name) => !known.includes(name));
    if (unknown !== undefined)
      throw badParameter(unknown, `Received unknown parameter: ${unknown}`, 'parameter_unknown');
  }

  string(name: string): string | undefined {
    const value = this.form[name];
    if (value === undefined) return undefined;
    if (typeof value !== 'string') throw badParameter(name, `Invalid string: {...}`);
    if (value === '') throw emptyParameter(name);
    return value;
  }

  required(name: string): string {
    const value = this.string(name);
    if (value === undefined) throw badParameter(name, `Missing required param: ${name}.`, 'parameter_missing');
    return value;
  }

  boolean(name: string): boolean {
    const value = this.string(name) ?? 'false';
    if (value !== 'true' && value !== 'false') throw badParameter(name, `Invalid boolean: ${value}`);
    return value === 'true';
  }

  oneOf(name: string, allowed: readonly string[]): string | undefined {
    const value = this.string(name);
    if (value === undefined || allowed.includes(value)) return value;
    throw badParameter(name, `Invalid ${name}: must be one of ${allowed.join(', ')}`);
  }

  integer(name: string, least: number, most: number): number | undefined {
    const value = this.string(name);
    return value === undefined ? undefined : integerFrom(name, value, least, most);
  }

  strings(name: string): string[] | undefined {
    const value = this.form[name];
    if (value === undefined) return undefined;
    if (typeof value === 'string') throw badParameter(name, 'Invalid array');
    return Object.values(value).map((item) => {
      if (typeof item !== 'string' || item === '') throw badParameter(name, 'Invalid array');
      return item;
    });
  }

  object(name: string, known: readonly string[]): Parameters | undefined {
    const value = this.form[name];
    if (value === undefined) return undefined;
    if (typeof value === 'string') throw badParameter(name, 'Invalid object');
    return new Parameters(value, known);
  }

  /** https://docs.stripe.com/api/metadata */
  metadata(): Record<string, string> {
    const value: FormValue = this.form.metadata ?? {};
    if (typeof value === 'string') {
      if (value === '') return {};
      throw badParameter('metadata', 'Invalid object');
    }
    // An empty value unsets a member: there is none yet.
    const members = Object.entries(value).filter(([, text]) => text !== '');
    if (members.length > MOST_METADATA)
      throw badParameter('metadata', `Metadata can have up to ${MOST_METADATA} keys.`);
    for (const [name, text] of members) {
      const param = `metadata[${name}]`;
      if (typeof text !== 'string') throw badParameter(param, 'Metadata values must be strings.');
      if (name.length > 40) throw badParameter(param, 'Metadata keys can have up to 40 characters.');
      if (text.length > 500) throw badParameter(param, 'Metadata values can have up to 500 characters.');
    }
    return Object.assign(Object.create(null) as Record<string, string>, Object.fromEntries(members));
  }
}

export function integerFrom(name: string, value: string, least: number, most: number): number {
  const code = 'parameter_invalid_integer';
  if (!/^-?\d{1,20}$/.test(value)) throw badParameter(name, `Invalid integer: ${value}`, code);
  const number = Number(value);
  if (number < least) throw badParameter(name, `This value must be greater than or equal to ${least}.`, code);
  if (number > most) throw badParameter(name, `This value must be less than or equal to ${most}.`, code);
  return number;
}

function emptyParameter(name: string) {
  return badParameter(
    name,
    `You passed an empty string for '${name}'. We assume empty values are an attempt to unset a parameter; however ` +
      `'${name}' cannot be unset. You should remove '${name}' from your request or supply a non-empty value.`,
    'parameter_invalid_empty',
  );
}
