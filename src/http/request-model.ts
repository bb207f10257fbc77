import { applyDecorators } from '@nestjs/common';
import { getMetadataStorage, IsArray, ValidateIf, ValidateNested } from 'class-validator';
import { type Fault, pointerTo } from './validation.js';

type Model<T = object> = new () => T;

const ELEMENTS = Symbol('ELEMENTS');

/** A member that may be left out. Unlike class-validator's `IsOptional` it does not accept `null` for absence. */
export function Optional(): PropertyDecorator {
  return ValidateIf((_, value) => value !== undefined);
}

/** A member that must be there although the class that this one extends makes it {@link Optional}. */
export function Required(): PropertyDecorator {
  return ValidateIf(() => true); // class-validator lets a rule stand in for an inherited one of the same kind
}

/** A list of objects of that class, each validated by its rules. */
export function ListOf(model: () => Model): PropertyDecorator {
  return applyDecorators(Reflect.metadata(ELEMENTS, model), IsArray(), ValidateNested({ each: true }));
}

/**
 * Makes an instance of a request class from parsed JSON, defaults included. A member counts as known when it has a
 * validation rule; an unknown one is reported and never dropped without a word, whatever its name: `constructor` and
 * `toString` are names like any other.
 *
 * @param faults where unknown members are reported, and elements of a list that are no objects
 */
export function instantiate<T extends object>(model: Model<T>, plain: object, faults: Fault[], pointer = ''): T {
  const known = knownMembers(model);
  const instance = new model();
  for (const [name, value] of Object.entries(plain) as [string, unknown][]) {
    const here = pointerTo(pointer, name);
    if (!known.has(name)) {
      faults.push({ pointer: here, detail: `${name} is not a member of this request` });
      continue;
    }
    const elements = Reflect.getMetadata(ELEMENTS, model.prototype as object, name) as (() => Model) | undefined;
    const converted = elements && Array.isArray(value) ? instantiateAll(elements(), value, faults, here) : value;
    (instance as Record<string, unknown>)[name] = converted;
  }
  return instance;
}

function instantiateAll(model: Model, values: readonly unknown[], faults: Fault[], pointer: string): unknown[] {
  return values.map((value, index) => {
    const here = pointerTo(pointer, String(index));
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      return instantiate(model, value, faults, here);
    }
    faults.push({ pointer: here, detail: 'the element must be a JSON object' });
    return {}; // has no rules: the fault is told once
  });
}

const members = new WeakMap<Model, ReadonlySet<string>>();

function knownMembers(model: Model): ReadonlySet<string> {
  let known = members.get(model);
  if (!known) {
    const rules = getMetadataStorage().getTargetValidationMetadatas(model, '', false, false);
    known = new Set(rules.map((rule) => rule.propertyName));
    members.set(model, known);
  }
  return known;
}
