import { ValidateBy } from 'class-validator';

const LONGEST = 255;

/** What an external reference must be, in words. */
export const EXTERNAL_REF_RULE = `externalRef must be a string of 1 to ${LONGEST} characters, without NUL`;

/** Characters are counted as people count them: those beyond the basic plane once. */
export function isExternalRef(value: unknown): value is string {
  if (typeof value !== 'string' || value === '' || value.includes('\0')) return false;
  return value.length <= LONGEST || [...value].length <= LONGEST;
}

/** The name of an order in the client's system. */
export function IsExternalRef(): PropertyDecorator {
  return ValidateBy({
    name: 'isExternalRef',
    validator: { validate: isExternalRef, defaultMessage: () => EXTERNAL_REF_RULE },
  });
}
