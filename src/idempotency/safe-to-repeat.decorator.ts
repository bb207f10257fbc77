import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiExtension } from '@nestjs/swagger';

/** What makes a repeat harmless where no key does. */
export type RepeatSafety =
  /** A business key names what is written, so that writing it again finds it. */
  | 'natural-key'
  /** The client chose the id. */
  | 'client-chosen-id'
  /** The change names the version it is meant for. */
  | 'version'
  /** The request says how things shall be, not how they shall change. */
  | 'absolute-state'
  /** Doing it twice has the effect of doing it once. */
  | 'same-effect'
  /** The sender's message id is recorded with the effect. */
  | 'inbox'
  /** What is sent is numbered, and numbers at or below the last are known. */
  | 'sequence'
  /** It opens an epoch. A repeat opens another one, which its caller then has. */
  | 'epoch';

export const SAFE_TO_REPEAT = Symbol('SAFE_TO_REPEAT');

/** Declares why a route that changes something may be repeated without a key. The service does not start without. */
export function SafeToRepeat(by: RepeatSafety): MethodDecorator {
  return applyDecorators(SetMetadata(SAFE_TO_REPEAT, by), ApiExtension('x-safe-to-repeat', { by }));
}
