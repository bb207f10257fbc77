import { PlainRefusal } from './reply.js';

/** The members of a JSON object, read one by one; what is wrong with one is refused with 400. */
export class JsonMembers {
  private constructor(private readonly members: ReadonlyMap<string, unknown>) {}

  /** @throws PlainRefusal when it is no JSON object, or has a member that is not known */
  static read(body: Buffer, known: readonly string[]): JsonMembers {
    let value: unknown;
    try {
      value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
    } catch {
      throw new PlainRefusal(400, 'malformed_json', 'The body is not JSON in UTF-8.');
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw new PlainRefusal(400, 'malformed_json', 'The body must be a JSON object.');
    }
    const members = new Map<string, unknown>(Object.entries(value));
    const unknown = [...members.keys()].find((name) => !known.includes(name));
    if (unknown !== undefined) throw invalid(unknown, `is not known; known are ${known.join(', ')}`);
    return new JsonMembers(members);
  }

  has(name: string): boolean {
    return this.members.has(name);
  }

  string(name: string, longest: number): string {
    const value = this.required(name);
    if (
      typeof value !== 'string' ||
      value === '' ||
      value.length > longest ||
      /\0/.test(value) ||
      !value.isWellFormed()
    ) {
      throw invalid(name, `must be a string of 1 to ${longest} characters`);
    }
    return value;
  }

  integer(name: string, least: number, most: number, otherwise?: number): number {
    const value = this.members.get(name) ?? otherwise ?? this.required(name);
    if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
    throw invalid(name, `must be a whole number from ${least} to ${most}`);
  }

  oneOf<T extends string>(name: string, allowed: readonly T[], otherwise?: T): T {
    const value = this.members.get(name) ?? otherwise ?? this.required(name);
    if (allowed.includes(value as T)) return value as T;
    throw invalid(name, `must be one of ${allowed.join(', ')}`);
  }

  boolean(name: string): boolean {
    const value = this.required(name);
    if (typeof value === 'boolean') return value;
    throw invalid(name, 'must be true or false');
  }

  private required(name: string): unknown {
    const value = this.members.get(name);
    if (value === undefined || value === null) throw invalid(name, 'is missing');
    return value;
  }
}

export function invalid(param: string, what: string, code = 'parameter_invalid'): PlainRefusal {
  return new PlainRefusal(400, code, `${param} ${what}.`, param);
}
