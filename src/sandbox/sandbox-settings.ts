import { z } from 'zod';
import { integer, url } from '../config/setting-kinds.js';
import { SettingsError } from '../config/settings.js';
import type { SandboxOptions } from './sandbox.js';

/** What signs webhooks where nothing else is said; the service knows it too. */
export const DEFAULT_WEBHOOK_SECRET = 'whsec_sandbox';

const environment = z.object({
  NODE_ENV: z
    .string()
    .refine((text) => text !== 'production', { message: 'is production, where no sandbox may run' })
    .optional(),
  HOST: z.string().default('127.0.0.1'),
  SANDBOX_PORT: integer('4242', 0, 65_535),
  SANDBOX_DATABASE_URL: url('postgres', 'postgresql'),
  SANDBOX_WEBHOOK_URL: url('http', 'https'),
  STRIPE_WEBHOOK_SECRET: z.string().default(DEFAULT_WEBHOOK_SECRET),
  EMBEDDED_DATABASE_DIR: z.string().optional(),
});

/** The settings of a sandbox that runs alone. */
export interface SandboxSettings extends Pick<SandboxOptions, 'port' | 'webhook'> {
  readonly host: string;
  /** Undefined: an embedded Postgres of the sandbox's own. */
  readonly databaseUrl: string | undefined;
  /** Of the service's embedded Postgres, which the sandbox's lies beside; undefined: the default one. */
  readonly embeddedDirectory: string | undefined;
}

/**
 * Turns environment variables into settings. An empty variable counts as unset.
 *
 * @throws SettingsError with every fault at once
 */
export function loadSandboxSettings(variables: Readonly<Record<string, string | undefined>>): SandboxSettings {
  const given = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const parsed = environment.safeParse(given);
  if (!parsed.success) {
    throw new SettingsError(parsed.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`));
  }
  const env = parsed.data;
  const { SANDBOX_WEBHOOK_URL: webhookUrl } = env;
  return {
    host: env.HOST,
    port: env.SANDBOX_PORT,
    databaseUrl: env.SANDBOX_DATABASE_URL,
    embeddedDirectory: env.EMBEDDED_DATABASE_DIR,
    webhook: webhookUrl === undefined ? undefined : { url: webhookUrl, secret: env.STRIPE_WEBHOOK_SECRET },
  };
}
