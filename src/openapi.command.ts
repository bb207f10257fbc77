import { writeFile } from 'node:fs/promises';
import { VersioningType } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { loadSettings } from './config/settings.js';
import { apiDocument } from './openapi.js';
import { providerAccess } from './payments/provider-access.js';

/**
 * `npm run openapi`: writes the OpenAPI document, as the service answers it with its default settings, to
 * `openapi.json`. Nothing is instantiated, so no database is needed.
 */
const settings = loadSettings({});
const providers = providerAccess(settings.payments, 'http://nowhere');
const app = await NestFactory.create(AppModule.forRoot(settings, 'postgres://nowhere', providers), {
  preview: true,
  logger: ['error'],
  abortOnError: false,
});
app.enableVersioning({ type: VersioningType.URI });
await writeFile('openapi.json', `${JSON.stringify(apiDocument(app, settings.idempotency.retention), null, 2)}\n`);
