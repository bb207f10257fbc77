import { createHash } from 'node:crypto';
import type { Ownership } from './lease-store.js';

/**
 * The key under which an operation calls somebody else at one of its steps: the same however often and by whomever the
 * step is repeated, and another for every other operation, tenant, endpoint and key. Each part is framed by its length,
 * so that no two lists of parts run together to the same bytes.
 *
 * @returns SHA-256, 64 hexadecimal digits
 */
export function childKey({ scope, operationId }: Pick<Ownership, 'scope' | 'operationId'>, step: string): string {
  const hash = createHash('sha256');
  for (const part of [scope.tenantId, scope.endpoint, scope.key, operationId, step]) {
    const bytes = Buffer.from(part);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    hash.update(length).update(bytes);
  }
  return hash.digest('hex');
}
