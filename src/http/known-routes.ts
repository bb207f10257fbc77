import type { NextFunction, Request, RequestHandler, Response } from 'express';
import { Problem } from './problem.js';
import { MethodNotAllowed, NotFound } from './problems.js';

interface Layer {
  readonly route?: { readonly methods: Readonly<Record<string, boolean>> };
  match(path: string): boolean;
}

/**
 * Middleware that refuses what no route serves, before anybody is asked who they are: an unknown address is 404 and a
 * known one with another method is 405 with `Allow` (RFC 9110, section 15.5.6), with or without an API key.
 *
 * @param router the Express router, with all routes registered by the time of the first request
 */
export function knownRoutes(router: () => { readonly stack: readonly unknown[] }): RequestHandler {
  let routes: Layer[] | undefined;
  return (request: Request, _response: Response, next: NextFunction): void => {
    routes ??= (router().stack as Layer[]).filter((layer) => layer.route);
    const method = request.method === 'HEAD' ? 'get' : request.method.toLowerCase();
    const allowed = new Set<string>();
    for (const layer of routes) {
      if (!matches(layer, request.path)) continue;
      const { methods } = layer.route!;
      if (methods[method] || methods._all) return next();
      Object.keys(methods).forEach((name) => allowed.add(name.toUpperCase()));
    }
    if (allowed.size === 0) return next(new Problem(NotFound, 'No route has this address.'));
    if (allowed.has('GET')) allowed.add('HEAD');
    const allow = [...allowed].sort().join(', ');
    next(new Problem(MethodNotAllowed, `Use one of ${allow}.`, { headers: { Allow: allow } }));
  };
}

/** A parameter that is not valid percent-encoding names nothing. */
function matches(layer: Layer, path: string): boolean {
  try {
    return layer.match(path);
  } catch {
    return false;
  }
}
