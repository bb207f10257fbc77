import type { Request, RequestHandler, Response } from 'express';
import helmet, { type HelmetOptions } from 'helmet';

/** Helmet's defaults, for plain HTTP on a developer's machine as well: nothing is to be upgraded to HTTPS there. */
const OPTIONS: HelmetOptions = { contentSecurityPolicy: { directives: { 'upgrade-insecure-requests': null } } };

/** Middleware that gives every answer Helmet's headers. They never differ, so they are worked out once. */
export function securityHeaders(): RequestHandler {
  const headers = helmetHeaders();
  return (_request, response, next) => {
    for (const [name, value] of headers) response.setHeader(name, value);
    next();
  };
}

function helmetHeaders(): readonly (readonly [name: string, value: string])[] {
  const headers: [string, string][] = [];
  const recorder = {
    setHeader: (name: string, value: string) => headers.push([name, value]),
    removeHeader: () => undefined, // X-Powered-By, which is switched off
  };
  helmet(OPTIONS)({} as Request, recorder as unknown as Response, (error?: unknown) => {
    if (error !== undefined) throw error as Error;
  });
  return headers;
}
