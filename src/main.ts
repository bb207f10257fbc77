import type { AddressInfo } from 'node:net';
import { Logger } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { MIGRATIONS } from '../migrations/index.js';
import { loadEnvFile } from './config/load-env-file.js';
import { loadSettings, type Settings } from './config/settings.js';
import { stopOnSignal } from './config/stop-on-signal.js';
import { createApp } from './configure-app.js';
import { startEmbeddedPostgres } from './database/embedded-postgres.js';
import { isOutdated, migrate } from './database/migrator.js';
import { needsSandbox, providerAccess } from './payments/provider-access.js';
import type { Sandbox } from './sandbox/sandbox.js';
import { useOrStartSandbox } from './sandbox/use-or-start-sandbox.js';
import { DEMO_TENANTS } from './tenants/demo-tenants.js';
import { TenantDirectory } from './tenants/tenant-directory.js';
import { Drain } from './operations/drain.js';
import { welcome } from './operations/welcome.js';

/** Of the grace: the rest is for the jobs that run, the pool and the embedded Postgres. */
const DRAIN_SHARE = 0.75;

interface Database {
  readonly url: string;
  stop(): Promise<void>;
}

/** Thrown when the service cannot start for a reason that its operator can mend. */
class StartError extends Error {}

async function start(): Promise<void> {
  loadEnvFile();
  const settings = loadSettings(process.env);
  const database = await openDatabase(settings.database);
  let sandbox: Sandbox | undefined;
  let app: NestExpressApplication | undefined;
  const stop = async () => {
    await app?.get(Drain).run(settings.http.shutdownGrace * DRAIN_SHARE);
    await app?.close();
    await sandbox?.stop();
    await database.stop();
  };
  try {
    if (needsSandbox(settings.payments)) sandbox = await openSandbox(settings, database.url);
    const providers = providerAccess(settings.payments, sandbox?.url);
    app = await createApp(settings, database.url, providers);
    if (settings.database.seedDemoTenants) await app.get(TenantDirectory).seed(DEMO_TENANTS);
    stopOnSignal(stop, settings.http.shutdownGrace, (signal) => new Logger('Main').log(`${signal} received: stopping`));
    await listen(app, settings.http);
    sandbox?.sendWebhooksTo({ url: webhookUrl(app), secret: providers.stripe.webhookSecret });
    console.log(welcome(settings, app, sandbox?.url));
  } catch (error) {
    await stop();
    throw error;
  }
}

async function openDatabase({ url, embeddedDirectory }: Settings['database']): Promise<Database> {
  if (url === undefined) {
    const embedded = await startEmbeddedPostgres({ directory: embeddedDirectory });
    await migrate(embedded.url, MIGRATIONS);
    return embedded;
  }
  if (await isOutdated(url, MIGRATIONS)) {
    throw new StartError('The schema of the database in DATABASE_URL is not up to date: run "npm run migrate" first.');
  }
  return { url, stop: () => Promise.resolve() };
}

/** The stand-in for the providers, where none is configured. */
async function openSandbox({ production, payments }: Settings, databaseUrl: string): Promise<Sandbox> {
  if (production) {
    throw new StartError('STRIPE_SECRET_KEY is not set, and the sandbox does not run when NODE_ENV is production.');
  }
  return useOrStartSandbox({ databaseUrl, port: payments.sandbox.port });
}

function webhookUrl(app: NestExpressApplication): string {
  const { port } = app.getHttpServer().address() as AddressInfo;
  return `http://127.0.0.1:${port}/v1/webhooks/stripe`;
}

async function listen(app: NestExpressApplication, { port, host }: Settings['http']): Promise<void> {
  try {
    await app.listen(port, host);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE') throw new StartError(`Port ${port} is taken: set PORT to another one, or to 0 for any.`);
    if (code === 'EACCES') throw new StartError(`Port ${port} may not be used by this user: set PORT to another one.`);
    if (code === 'EADDRNOTAVAIL') throw new StartError(`HOST ${host} is no address of this machine.`);
    throw error;
  }
}

start().catch((error: unknown) => {
  const known =
    error instanceof Error &&
    ['SettingsError', 'EmbeddedPostgresError', 'UnsafeRoutesError', 'SandboxError'].includes(error.name);
  console.error(known || error instanceof StartError ? error.message : error);
  process.exit(1);
});
