import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { loadSettings } from '../../src/config/settings.js';
import { createApp } from '../../src/configure-app.js';
import { DEMO_TENANTS } from '../../src/tenants/demo-tenants.js';
import { TenantDirectory } from '../../src/tenants/tenant-directory.js';
import { ApiClient } from './api-client.js';
import { TestDatabase } from './test-database.js';

export const ACME = DEMO_TENANTS[0];
export const GLOBEX = DEMO_TENANTS[1];

/** The service in this process, made as `main.ts` makes it, with the demo tenants, on a database of its own. */
export class TestApp {
  private constructor(
    readonly app: NestExpressApplication,
    readonly database: TestDatabase,
    readonly baseUrl: string,
  ) {}

  /**
   * @param environment settings beside those of a test
   * @param databaseUrl how the service reaches the database, where it is not the direct way
   */
  static async start(
    environment: Record<string, string> = {},
    { database, databaseUrl }: { database?: TestDatabase; databaseUrl?: string } = {},
  ): Promise<TestApp> {
    const own = database ?? (await TestDatabase.create());
    const settings = loadSettings({ LOG_LEVEL: 'fatal', DATABASE_URL: databaseUrl ?? own.url, ...environment });
    const app = await createApp(settings, databaseUrl ?? own.url);
    await app.get(TenantDirectory).seed(DEMO_TENANTS);
    await app.listen(0, '127.0.0.1');
    const { port } = (app.getHttpServer() as Server).address() as AddressInfo;
    return new TestApp(app, own, `http://127.0.0.1:${port}`);
  }

  /** Requests as a tenant, `acme` unless said otherwise. */
  as(tenant: { readonly key: string } = ACME): ApiClient {
    return new ApiClient(this.baseUrl, tenant.key);
  }

  /** Ends the service; the database goes with it. */
  async stop(): Promise<void> {
    await this.app.close();
    await this.database.drop();
  }
}
