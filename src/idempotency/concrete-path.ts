import type { Request } from 'express';
import { UUID } from '../http/uuid-param.pipe.js';

/**
 * The path of a request as the fingerprint takes it: its segments decoded, and those that are ids in lower case, because
 * UUIDs are the same in either case (RFC 9562, section 4). A parameter is an id when its name says so, `:id`, `:orderId`,
 * and it is a UUID: ids of another kind, such as `REF-1`, may differ by their case alone.
 */
export function concretePath(request: Request): string[] {
  const { path } = request.route as { path: string };
  const pattern = path.split('/').filter((segment) => segment !== '');
  return pattern.every((segment) => PLAIN.test(segment))
    ? pattern.map((segment) => (segment.startsWith(':') ? parameter(request, segment.slice(1)) : segment))
    : asSent(request);
}

/** A literal, or one parameter that fills its segment. */
const PLAIN = /^(:[A-Za-z_$][\w$]*|[^:*{}()[\]?+!\\"]+)$/;

function parameter(request: Request, name: string): string {
  const value = String(request.params[name]);
  return isId(name, value) ? value.toLowerCase() : value;
}

/** Where a pattern has wildcards or optional parts, the path itself is taken: only what was sent tells them apart. */
function asSent(request: Request): string[] {
  const ids = Object.entries(request.params).flatMap(([name, value]) =>
    isId(name, String(value)) ? [String(value)] : [],
  );
  return request.path.split('/').map((segment) => {
    const decoded = decodeURIComponent(segment);
    return ids.includes(decoded) ? decoded.toLowerCase() : decoded;
  });
}

function isId(name: string, value: string): boolean {
  return /(^|_)id$|[a-z0-9]Id$/.test(name) && UUID.test(value);
}

/** Names and values of the query, decoded, in the order of arrival. */
export function queryOf(request: Request): [string, string][] {
  const at = request.url.indexOf('?');
  return at < 0 ? [] : [...new URLSearchParams(request.url.slice(at + 1))];
}
