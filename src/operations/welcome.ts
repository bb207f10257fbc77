import type { AddressInfo } from 'node:net';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Settings } from '../config/settings.js';
import { DEMO_TENANTS } from '../tenants/demo-tenants.js';

/** What the service says when it is up: where it is, and what to try. */
export function welcome({ http, database }: Settings, app: NestExpressApplication, sandboxUrl?: string): string {
  const { port } = app.getHttpServer().address() as AddressInfo;
  const url = http.publicUrl ?? `http://localhost:${port}`;
  const keys = DEMO_TENANTS.map(({ name, key }) => `${name}: ${key}`).join('   ');
  const key = database.seedDemoTenants ? DEMO_TENANTS[0].key : '<API key>';
  return `
The service is listening on ${url}

  API description   ${url}/docs
  database          ${database.url === undefined ? 'embedded Postgres' : 'as in DATABASE_URL'}
  payments          ${sandboxUrl === undefined ? 'as in STRIPE_API_BASE' : `sandbox on ${sandboxUrl}`}
  API keys          ${database.seedDemoTenants ? keys : 'npm run tenants -- create NAME'}

Try it, then send the same line again: the second answer is the first, with "Idempotent-Replayed: true".

  curl -i ${url}/v1/orders -H 'Authorization: Bearer ${key}' -H 'Idempotency-Key: try-1' -H 'Content-Type: application/json' -d '{"currency":"EUR","items":[{"sku":"tea","quantity":2,"unitAmount":450}]}'
`;
}
