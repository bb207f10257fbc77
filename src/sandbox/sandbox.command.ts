import { loadEnvFile } from '../config/load-env-file.js';
import { stopOnSignal } from '../config/stop-on-signal.js';
import { resolveCluster } from '../database/embedded-postgres/cluster.js';
import { findAccount } from '../database/embedded-postgres/installation.js';
import { EmbeddedPostgresError, startEmbeddedPostgres } from '../database/embedded-postgres.js';
import { SandboxError } from './sandbox-error.js';
import { DEFAULT_WEBHOOK_SECRET, loadSandboxSettings, type SandboxSettings } from './sandbox-settings.js';
import { type Sandbox, startSandbox } from './sandbox.js';

const STOP_WITHIN_MS = 20_000;

interface Database {
  readonly url: string;
  stop(): Promise<void>;
}

/** `npm run sandbox`: the payment provider's stand-in, in a process of its own. */
async function run(): Promise<void> {
  loadEnvFile();
  const settings = loadSandboxSettings(process.env);
  const database = await openDatabase(settings);
  try {
    const sandbox = await startSandbox({ ...settings, databaseUrl: database.url });
    stopOnSignal(async () => {
      await sandbox.stop();
      await database.stop();
    }, STOP_WITHIN_MS);
    console.log(welcome(sandbox, settings));
  } catch (error) {
    await database.stop();
    throw error;
  }
}

/** The service and the sandbox each own their embedded Postgres, so that either can stop without the other. */
async function openDatabase({ databaseUrl, embeddedDirectory }: SandboxSettings): Promise<Database> {
  if (databaseUrl !== undefined) return { url: databaseUrl, stop: async () => undefined };
  const { directory } = await resolveCluster(embeddedDirectory, await findAccount());
  try {
    return await startEmbeddedPostgres({ directory: `${directory}-sandbox` });
  } catch (error) {
    if (!(error instanceof EmbeddedPostgresError)) throw error;
    throw new SandboxError(`${error.message} (For the sandbox, DATABASE_URL is called SANDBOX_DATABASE_URL.)`);
  }
}

function welcome({ url }: Sandbox, { webhook }: SandboxSettings): string {
  return [
    `The sandbox is listening on ${url}`,
    '',
    'Point the service at it:',
    `  STRIPE_API_BASE=${url}`,
    `  BANK_API_BASE=${url}`,
    `  STRIPE_WEBHOOK_SECRET=${webhook?.secret ?? DEFAULT_WEBHOOK_SECRET}`,
    webhook ? `Events go to ${webhook.url}` : 'Events wait: set SANDBOX_WEBHOOK_URL to have them sent.',
    `What it did: ${url}/sandbox/effects`,
  ].join('\n');
}

await run().catch((error: Error) => {
  const known = ['SettingsError', 'SandboxError'].includes(error.name);
  console.error(known ? error.message : error);
  process.exit(1);
});
