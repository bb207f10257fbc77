import { type ArgumentMetadata, Injectable, type PipeTransform } from '@nestjs/common';
import { validate, type ValidationError } from 'class-validator';
import { instantiate } from './request-model.js';
import { type Fault, pointerTo, validationFailed } from './validation.js';

/**
 * Validates bodies and queries against the class of their parameter, and refuses with `validation-failed`.
 *
 * Nest's own pipe is not used: it, and class-transformer beneath it, drop members called `constructor` or `toString`
 * without a word, inside free maps as well, and let a list of lists pass for a list of objects (docs/adr/0006).
 */
@Injectable()
export class ValidationPipe implements PipeTransform {
  async transform(value: unknown, { type, metatype }: ArgumentMetadata): Promise<unknown> {
    if ((type !== 'body' && type !== 'query') || metatype === undefined || isBuiltIn(metatype)) return value;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw validationFailed([{ pointer: '', detail: 'the body must be a JSON object' }]);
    }
    const faults: Fault[] = [];
    const instance = instantiate(metatype as new () => object, value, faults);
    const errors = await validate(instance, { forbidUnknownValues: false, stopAtFirstError: true });
    for (const error of errors) faults.push(...faultsOf(error, ''));
    if (faults.length > 0) throw validationFailed(faults);
    return instance;
  }
}

function isBuiltIn(metatype: unknown): boolean {
  return [String, Boolean, Number, Array, Object].includes(metatype as StringConstructor);
}

function* faultsOf(error: ValidationError, parent: string): Generator<Fault> {
  const pointer = pointerTo(parent, error.property);
  for (const detail of Object.values(error.constraints ?? {})) yield { pointer, detail };
  for (const child of error.children ?? []) yield* faultsOf(child, pointer);
}
