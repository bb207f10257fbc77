import { ValidateBy } from 'class-validator';

/** An object of strings, with at most that many members. */
export function IsStringMap(most: number): PropertyDecorator {
  return ValidateBy({
    name: 'isStringMap',
    validator: {
      validate: (value: unknown) =>
        typeof value === 'object' &&
        value !== null &&
        !Array.isArray(value) &&
        Object.keys(value).length <= most &&
        Object.values(value).every((member) => typeof member === 'string'),
      defaultMessage: () => `$property must be an object of at most ${most} strings`,
    },
  });
}
