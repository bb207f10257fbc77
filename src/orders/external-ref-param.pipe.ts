import { Injectable, type PipeTransform } from '@nestjs/common';
import { validationFailed } from '../http/validation.js';
import { EXTERNAL_REF_RULE, isExternalRef } from './dto/external-ref.js';
import type { NewOrder } from './dto/new-order.js';

/** An external reference in a path. */
@Injectable()
export class ExternalRefParam implements PipeTransform<string, string> {
  /** @throws Problem `validation-failed` */
  transform(value: string): string {
    if (isExternalRef(value)) return value;
    throw validationFailed([{ pointer: '/externalRef', detail: EXTERNAL_REF_RULE }]);
  }

  /** @throws Problem `validation-failed` when the body names another reference than the path */
  static refuseOther(externalRef: string, order: NewOrder): void {
    if (order.externalRef === undefined || order.externalRef === externalRef) return;
    throw validationFailed([{ pointer: '/externalRef', detail: 'externalRef must be that of the path, or left out' }]);
  }
}
