import { VersioningType } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { AppModule } from './app.module.js';
import type { Settings } from './config/settings.js';
import { jsonBody } from './http/json-body.js';
import { knownRoutes } from './http/known-routes.js';
import { createLogger } from './operations/logger.js';
import { Login } from './tenants/login.js';

const BODY_LIMIT = 100_000;

/** How Nest is to make the application: bodies are read by our own parser, and a fault at boot is thrown. */
export const APP_OPTIONS = { bodyParser: false, abortOnError: false } as const;

/** Makes the application as it is served: the one place for `main.ts` and for tests. It does not listen yet. */
export async function createApp(settings: Settings, databaseUrl: string): Promise<NestExpressApplication> {
  const app = await NestFactory.create<NestExpressApplication>(AppModule.forRoot(settings, databaseUrl), {
    ...APP_OPTIONS,
    logger: createLogger(settings.logLevel),
  });
  configureApp(app);
  return app;
}

/**
 * The order of checks: route, login, media type, size, JSON. They are middleware, which Nest runs before everything else,
 * so that a stranger's body is never read. Key, validation and the rest follow inside Nest.
 */
export function configureApp(app: NestExpressApplication): void {
  app.enableVersioning({ type: VersioningType.URI });
  app.disable('x-powered-by');
  app.disable('etag'); // versions are the only entity tags here
  describeApi(app);
  app.use(knownRoutes(() => app.getHttpAdapter().getInstance().router));
  app.use('/v1', app.get(Login).handle);
  app.use(jsonBody(BODY_LIMIT));
}

function describeApi(app: NestExpressApplication): void {
  const description = new DocumentBuilder()
    .setTitle('Orders and payments')
    .setDescription('A service on which every request may safely arrive more than once.')
    .setVersion('1')
    .setOpenAPIVersion('3.1.0')
    .addBearerAuth({ type: 'http', scheme: 'bearer', description: 'An API key' })
    .addSecurityRequirements('bearer')
    .build();
  SwaggerModule.setup('docs', app, () => SwaggerModule.createDocument(app, description), {
    jsonDocumentUrl: 'openapi.json',
    yamlDocumentUrl: 'openapi.yaml',
  });
}
