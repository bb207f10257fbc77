import { Injectable, type PipeTransform } from '@nestjs/common';
import { validationFailed } from '../http/validation.js';
import { LONGEST_EXTERNAL_REF, type NewOrder } from './dto/new-order.js';

/** An external reference in a path. */
@Injectable()
export class ExternalRefParam implements PipeTransform<string, string> {
  /** @throws Problem `validation-failed` */
  transform(value: string): string {
    if (value.length <= LONGEST_EXTERNAL_REF && !value.includes('\0')) return value;
    const detail = `externalRef in the path must be at most ${LONGEST_EXTERNAL_REF} characters, without NUL`;
    throw validationFailed([{ pointer: '/externalRef', detail }]);
  }

  /** @throws Problem `validation-failed` when the body names another reference than the path */
  static refuseOther(externalRef: string, order: NewOrder): void {
    if (order.externalRef === undefined || order.externalRef === externalRef) return;
    throw validationFailed([{ pointer: '/externalRef', detail: 'externalRef must be that of the path, or left out' }]);
  }
}
