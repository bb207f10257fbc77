import type { AddressInfo } from 'node:net';
import type { ModuleMetadata } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Test } from '@nestjs/testing';
import { AppModule } from '../../src/app.module.js';
import { loadSettings } from '../../src/config/settings.js';
import { APP_OPTIONS, configureApp } from '../../src/configure-app.js';
import { Consumers } from '../../src/messaging/consumers.js';
import { MESSAGING_DEFAULTS, MESSAGING_OPTIONS, type MessagingOptions } from '../../src/messaging/messaging.options.js';
import { mailAccess } from '../../src/notifications/mail-access.js';
import { createLogger } from '../../src/operations/logger.js';
import { providerAccess } from '../../src/payments/provider-access.js';
import { DEMO_TENANTS } from '../../src/tenants/demo-tenants.js';
import { TenantDirectory } from '../../src/tenants/tenant-directory.js';
import { ApiClient } from './api-client.js';
import { TestDatabase } from './test-database.js';

export const ACME = DEMO_TENANTS[0];
export const GLOBEX = DEMO_TENANTS[1];

/** An address where nobody listens: for suites that move no money. */
export const NOWHERE = 'http://127.0.0.1:1';

export interface TestParts extends Pick<ModuleMetadata, 'controllers' | 'providers'> {
  readonly database?: TestDatabase;
  readonly databaseUrl?: string;
  /** Where the stand-in of the providers is. */
  readonly sandboxUrl?: string;
  /** Times of messaging in place of the service's own; `{}` for those. Without it nobody consumes. */
  readonly messaging?: Partial<MessagingOptions>;
}

/** Finds none. */
class NoConsumers extends Consumers {
  override onModuleInit(): void {}
}

/** The service in this process, made as `main.ts` makes it, with the demo tenants, on a database of its own. */
export class TestApp {
  private constructor(
    readonly app: NestExpressApplication,
    readonly database: TestDatabase,
    readonly baseUrl: string,
  ) {}

  /**
   * @param environment settings beside those of a test
   * @param parts a database to share, how the service reaches it where that is not the direct way, and controllers or
   * providers of the test's own that are served beside the service's
   *
   * Consumers, the service's own included, are found only where a test gives times of messaging or a mail server.
   * Elsewhere the relay would send statements between those that a test counts, holds or cuts, and a consumer that
   * somebody adds would break tests that have nothing to do with it.
   */
  static async start(environment: Record<string, string> = {}, parts: TestParts = {}): Promise<TestApp> {
    const database = parts.database ?? (await TestDatabase.create());
    const databaseUrl = parts.databaseUrl ?? database.url;
    const settings = loadSettings({ LOG_LEVEL: 'fatal', DATABASE_URL: databaseUrl, ...environment });
    const { controllers } = parts;
    const providers = providerAccess(settings.payments, parts.sandboxUrl ?? NOWHERE);
    const consumes = parts.messaging ?? environment.SMTP_URL;
    const builder = Test.createTestingModule({
      imports: [AppModule.forRoot(settings, databaseUrl, providers, mailAccess(settings.notifications))],
      ...(controllers && { controllers }),
      ...(parts.providers && { providers: parts.providers }),
    })
      .overrideProvider(MESSAGING_OPTIONS)
      .useValue({ ...MESSAGING_DEFAULTS, ...settings.messaging, ...parts.messaging });
    if (consumes === undefined) builder.overrideProvider(Consumers).useClass(NoConsumers);
    const module = await builder.compile();
    const app = module.createNestApplication<NestExpressApplication>({
      ...APP_OPTIONS,
      logger: createLogger(settings.logLevel),
    });
    configureApp(app, settings);
    await app.get(TenantDirectory).seed(DEMO_TENANTS);
    await app.listen(0, '127.0.0.1');
    const { port } = app.getHttpServer().address() as AddressInfo;
    return new TestApp(app, database, `http://127.0.0.1:${port}`);
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
