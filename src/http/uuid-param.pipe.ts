import { Injectable, type PipeTransform } from '@nestjs/common';
import { Problem } from './problem.js';
import { NotFound } from './problems.js';

/** Any UUID (RFC 9562), of whatever version. */
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** An id in a path, in lower case. What is no UUID names no resource: `not-found`. */
@Injectable()
export class UuidParam implements PipeTransform<string, string> {
  static isUuid(value: string): boolean {
    return UUID.test(value);
  }

  transform(value: string): string {
    if (!UuidParam.isUuid(value)) throw new Problem(NotFound, 'There is no resource with this id.');
    return value.toLowerCase();
  }
}
