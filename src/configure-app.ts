import type { Server } from 'node:http';
import { VersioningType } from '@nestjs/common';
import type { CorsOptions } from '@nestjs/common/internal';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Request, RequestHandler } from 'express';
import { AppModule } from './app.module.js';
import type { Settings } from './config/settings.js';
import { answerBelowExpress } from './http/below-express.js';
import { jsonBody, rawBody } from './http/json-body.js';
import { knownRoutes } from './http/known-routes.js';
import { ProblemRenderer } from './http/problem-renderer.js';
import { securityHeaders } from './http/security-headers.js';
import type { MailAccess } from './notifications/mail-access.js';
import { Drain } from './operations/drain.js';
import { describeApi } from './openapi.js';
import { createLogger } from './operations/logger.js';
import { requestLog } from './operations/request-log.js';
import type { ProviderAccess } from './payments/provider-access.js';
import { Login } from './tenants/login.js';
import { rateLimit } from './tenants/rate-limit.js';

const BODY_LIMIT = 100_000;
const WEBHOOK_LIMIT = 1_000_000;
const FEED_LIMIT = 5_000_000;

const WEBHOOKS = '/v1/webhooks';
const FEED_RECORDS = /^\/v1\/feeds\/[^/]+\/records\/?$/i;

/** How Nest is to make the application: bodies are read by our own parser, and a fault at boot is thrown. */
export const APP_OPTIONS = { bodyParser: false, abortOnError: false } as const;

/** Makes the application as it is served: the one place for `main.ts` and for tests. It does not listen yet. */
export async function createApp(
  settings: Settings,
  databaseUrl: string,
  providers: ProviderAccess,
  mail?: MailAccess,
): Promise<NestExpressApplication> {
  const module = AppModule.forRoot(settings, databaseUrl, providers, mail);
  const app = await NestFactory.create<NestExpressApplication>(module, {
    ...APP_OPTIONS,
    logger: createLogger(settings.logLevel),
  });
  configureApp(app, settings);
  return app;
}

/**
 * The order of checks: route, login, rate limit, media type, size, JSON. They are middleware, which Nest runs before
 * everything else, so that a stranger's body is never read. Key, validation and the rest follow inside Nest.
 */
export function configureApp(app: NestExpressApplication, { http, idempotency }: Settings): void {
  app.enableVersioning({ type: VersioningType.URI });
  app.disable('x-powered-by');
  app.disable('etag'); // versions are the only entity tags here
  limitSlowRequests(app.getHttpServer());
  answerBelowExpress(app.getHttpServer(), app.get(ProblemRenderer));
  app.use(requestLog());
  app.use(app.get(Drain).handle);
  app.use(securityHeaders());
  if (http.corsOrigins.length > 0) app.enableCors(corsOptions(http.corsOrigins));
  describeApi(app, idempotency.retention);
  app.use(knownRoutes(() => app.getHttpAdapter().getInstance().router));
  // Who sends webhooks has no API key: the signature over the raw bytes takes the place of login and of strict JSON.
  app.use(WEBHOOKS, rawBody(WEBHOOK_LIMIT));
  app.use('/v1', except(WEBHOOKS, app.get(Login).handle), except(WEBHOOKS, rateLimit(http.rateLimit)));
  app.use(except(WEBHOOKS, jsonBody(bodyLimit)));
}

function except(path: string, middleware: RequestHandler): RequestHandler {
  const isBelow = ({ originalUrl }: Request): boolean =>
    `${originalUrl.split('?', 1)[0]!.toLowerCase()}/`.startsWith(`${path}/`);
  return (request, response, next) => (isBelow(request) ? next() : middleware(request, response, next));
}

/** Bytes. Only what carries hundreds of orders may be larger than one order can be. */
function bodyLimit({ path }: Request): number {
  return FEED_RECORDS.test(path) ? FEED_LIMIT : BODY_LIMIT;
}

/** Milliseconds: who sends a request more slowly than this holds a socket for nothing. */
function limitSlowRequests(server: Server): void {
  server.headersTimeout = 10_000;
  server.requestTimeout = 30_000;
}

function corsOptions(origins: readonly string[]): CorsOptions {
  return {
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowedHeaders: ['Authorization', 'Content-Type', 'Idempotency-Key', 'If-Match', 'If-None-Match', 'X-Request-Id'],
    exposedHeaders: ['Idempotent-Replayed', 'Idempotency-Expires', 'ETag', 'Location', 'Retry-After', 'X-Request-Id'],
    maxAge: 600,
  };
}
