import type { Request } from 'express';

/**
 * The path of a request as the fingerprint takes it: literal segments as the route declares them, parameters decoded,
 * those that are ids (`:id`, `:orderId`) in lower case, because UUIDs are the same in either case (RFC 9562, section 4).
 */
export function concretePath(request: Request): string[] {
  const pattern = (request.route as { path: string }).path;
  return pattern
    .split('/')
    .filter((segment) => segment !== '')
    .map((segment) => {
      if (!segment.startsWith(':')) return segment;
      const name = segment.slice(1);
      const value = String(request.params[name]);
      return /id$/i.test(name) ? value.toLowerCase() : value;
    });
}

/** Names and values of the query, decoded, in the order of arrival. */
export function queryOf(request: Request): [string, string][] {
  const at = request.url.indexOf('?');
  return at < 0 ? [] : [...new URLSearchParams(request.url.slice(at + 1))];
}
