import { Problem } from './problem.js';
import { ValidationFailed } from './problems.js';

/** One fault of a request: where it is (JSON Pointer, RFC 6901) and what is wrong with it. */
export interface Fault {
  readonly pointer: string;
  readonly detail: string;
}

/** The refusal that lists these faults. */
export function validationFailed(faults: readonly Fault[]): Problem {
  const detail = faults.length === 1 ? 'One member is not valid.' : `${faults.length} members are not valid.`;
  return new Problem(ValidationFailed, detail, { members: { errors: faults } });
}

/** One more step of a JSON Pointer (RFC 6901, section 3). */
export function pointerTo(parent: string, member: string): string {
  return `${parent}/${member.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
