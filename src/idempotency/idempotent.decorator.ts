import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiExtension, ApiHeader } from '@nestjs/swagger';
import { ApiProblems } from '../http/api-problems.decorator.js';
import type { FingerprintRules } from './fingerprint.js';
import { KeyInUse, KeyInvalid, KeyMissing, KeyReused } from './idempotency.problems.js';

export interface IdempotentOptions {
  /** A stable name such as `orders.create`, part of each key's scope. Never rename it: every key would be forgotten. */
  readonly endpoint: string;
  /**
   * `local` (the default): all effects are in Postgres and commit with the answer. `leased`: the handler calls something
   * outside; it takes a {@link CurrentOperation} and works in steps.
   */
  readonly mode?: 'local' | 'leased';
  /** Whether a request without a key is refused (the default) or simply runs. */
  readonly key?: 'required' | 'optional';
  /** What of the body does not make another request: written-out defaults, and notes about the attempt itself. */
  readonly fingerprint?: FingerprintRules;
}

export const IDEMPOTENT = Symbol('IDEMPOTENT');

/**
 * Makes a route safe to repeat under an `Idempotency-Key`: however often a request arrives, it is executed once, and
 * every repeat gets the first answer byte for byte. The handler writes through {@link UnitOfWork} and returns what it
 * would return anyway; its writes, its events and the stored answer become visible by one COMMIT.
 *
 * Handlers under this decorator must answer by returning: no streams, no `@Res()` without `passthrough`. The service
 * does not start otherwise.
 *
 * @example
 * ⁠@Post()
 * ⁠@Idempotent({ endpoint: 'orders.create', fingerprint: { defaults: { metadata: {} }, volatile: ['clientContext'] } })
 * create(@CurrentTenant() tenantId: string, @Body() order: NewOrder) { ... }
 */
export function Idempotent(options: IdempotentOptions): MethodDecorator {
  const required = options.key !== 'optional';
  return applyDecorators(
    SetMetadata(IDEMPOTENT, options),
    ApiExtension('x-safe-to-repeat', {
      by: 'key',
      endpoint: options.endpoint,
      key: required ? 'required' : 'optional',
    }),
    ApiHeader({
      name: 'Idempotency-Key',
      required,
      description:
        'One key for each operation that is meant to happen once: 1 to 255 printable ASCII characters, bare or as a string in double quotes. Its scope is the tenant and this endpoint. The answer is kept until the time in its Idempotency-Expires header; until then a repeat gets it byte for byte, with Idempotent-Replayed: true.',
      schema: { type: 'string', minLength: 1, maxLength: 255, example: '5f1c3f0e-7a55-4d0e-9b57-0f6a3a2b8c11' },
    }),
    ApiProblems(...(required ? [KeyMissing] : []), KeyInvalid, KeyInUse, KeyReused),
  );
}
