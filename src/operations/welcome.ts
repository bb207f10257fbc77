import type { AddressInfo } from 'node:net';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Settings } from '../config/settings.js';
import { DEMO_TENANTS } from '../tenants/demo-tenants.js';

/** Where that goes which leaves the service. */
export interface Outside {
  /** Of the providers' stand-in; undefined: the providers of the settings. */
  readonly sandboxUrl: string | undefined;
  /** Undefined: no mails. */
  readonly mail: { readonly kind: 'smtp' } | { readonly kind: 'files'; readonly directory: string } | undefined;
}

/** What the service says when it is up: where it is, and what to try. */
export function welcome(
  { http, database }: Settings,
  app: NestExpressApplication,
  { sandboxUrl, mail }: Outside,
): string {
  const { port } = app.getHttpServer().address() as AddressInfo;
  const url = http.publicUrl ?? `http://localhost:${port}`;
  const keys = DEMO_TENANTS.map(({ name, key }) => `${name}: ${key}`).join('   ');
  const key = database.seedDemoTenants ? DEMO_TENANTS[0].key : '<API key>';
  return `
The service is listening on ${url}

  API description   ${url}/docs
  database          ${database.url === undefined ? 'embedded Postgres' : 'as in DATABASE_URL'}
  payments          ${sandboxUrl === undefined ? 'as in STRIPE_API_BASE' : `sandbox on ${sandboxUrl}`}
  mails             ${mailText(mail)}
  API keys          ${database.seedDemoTenants ? keys : 'npm run tenants -- create NAME'}

Try it, then send the same line again: the second answer is the first, with "Idempotent-Replayed: true".

  curl -i ${url}/v1/orders -H 'Authorization: Bearer ${key}' -H 'Idempotency-Key: try-1' -H 'Content-Type: application/json' -d '{"currency":"EUR","items":[{"sku":"tea","quantity":2,"unitAmount":450}]}'
`;
}

function mailText(mail: Outside['mail']): string {
  if (!mail) return 'none: SMTP_URL is not set';
  return mail.kind === 'smtp' ? 'as in SMTP_URL' : `files in ${mail.directory}`;
}
