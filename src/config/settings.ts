import { z } from 'zod';
import { duration, flag, integer, origins, secret, serverUrl, smtpUrl, url } from './setting-kinds.js';

/** Thrown when the environment does not make valid settings; the message lists every fault, secrets masked. */
export class SettingsError extends Error {
  override readonly name = 'SettingsError';

  constructor(readonly faults: readonly string[]) {
    super(`The settings are not valid:\n${faults.map((fault) => `  - ${fault}`).join('\n')}`);
  }
}

const environment = z.object({
  NODE_ENV: z.string().optional(),
  PORT: integer('3000', 0, 65_535),
  HOST: z.string().optional(),
  PUBLIC_URL: url('http', 'https'),
  LOG_LEVEL: z
    .enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace'], {
      error: 'must be one of fatal, error, warn, info, debug, trace',
    })
    .default('info'),
  CORS_ORIGINS: origins,
  RATE_LIMIT: integer('500', 0, 1_000_000),
  SHUTDOWN_GRACE: duration('8s', { timer: true }),

  DATABASE_URL: url('postgres', 'postgresql'),
  MIGRATION_DATABASE_URL: url('postgres', 'postgresql'),
  DATABASE_POOL_SIZE: integer('10', 1, 1_000),
  EMBEDDED_DATABASE_DIR: z.string().optional(),
  SEED_DEMO_TENANTS: flag,

  IDEMPOTENCY_RETENTION: duration('24h'),
  IDEMPOTENCY_WAIT: duration('2s', { zero: true, timer: true }),
  IDEMPOTENCY_LEASE: duration('30s'),
  IDEMPOTENCY_CLEANUP_INTERVAL: duration('1m', { timer: true }),
  PROVIDER_TIMEOUT: duration('10s', { timer: true }),
  EVENT_RETENTION: duration('30d'),
  INBOX_RETENTION: duration('35d'),
  SMTP_URL: smtpUrl,
  EVENTS_TRANSPORT: z.enum(['local', 'rabbitmq'], { error: 'must be local or rabbitmq' }).default('local'),
  RABBITMQ_URL: url('amqp', 'amqps'),
  RABBITMQ_PREFIX: z
    .string()
    .regex(/^[a-z0-9._-]{1,100}$/, { message: 'must be 1 to 100 of a to z, 0 to 9, dot, hyphen and underscore' })
    .default('orders'),

  STRIPE_SECRET_KEY: secret,
  STRIPE_API_BASE: serverUrl(
    ({ href, origin }) => href === `${origin}/`,
    'must be http:// or https://, host and port only: the paths are given by the SDK',
  ),
  STRIPE_WEBHOOK_SECRET: secret,
  BANK_API_BASE: serverUrl(
    ({ search, hash }) => search === '' && hash === '',
    'must be a URL that begins with http:// or https:// and ends with its path',
  ),
  RECONCILIATION_INTERVAL: duration('30s', { timer: true }),
  RECONCILIATION_GIVE_UP: duration('25h'),
  SANDBOX_PORT: integer('4242', 0, 65_535),
  SANDBOX_DATABASE_URL: url('postgres', 'postgresql'),
});

type Environment = z.infer<typeof environment>;

/** The rules between settings. Each is judged where the settings it names are valid by themselves. */
function* brokenRules(env: Partial<Environment>, given: Record<string, unknown>): Generator<string> {
  const production = env.NODE_ENV === 'production';
  if (production && given.DATABASE_URL === undefined) {
    yield 'DATABASE_URL is required when NODE_ENV is production';
  }
  if (production && env.SEED_DEMO_TENANTS === true) {
    yield 'SEED_DEMO_TENANTS must not be true when NODE_ENV is production: the demo keys are public';
  }
  const { IDEMPOTENCY_LEASE: lease, PROVIDER_TIMEOUT: timeout } = env;
  if (lease !== undefined && timeout !== undefined && lease < 2 * timeout + 1_000) {
    yield 'IDEMPOTENCY_LEASE must be at least twice PROVIDER_TIMEOUT and 1s more';
  }
  if (env.EVENTS_TRANSPORT === 'rabbitmq' && given.RABBITMQ_URL === undefined) {
    yield 'RABBITMQ_URL is required when EVENTS_TRANSPORT is rabbitmq';
  }
  const { INBOX_RETENTION: inbox, EVENT_RETENTION: events } = env;
  if (inbox !== undefined && events !== undefined && inbox <= events) {
    yield 'INBOX_RETENTION must be longer than EVENT_RETENTION';
  }
}

/** Every setting of the service, typed and valid. Durations are milliseconds. */
export interface Settings {
  readonly production: boolean;
  readonly http: {
    readonly port: number;
    readonly host: string;
    /** The address clients use; undefined: `http://localhost:` and the port listened on. */
    readonly publicUrl: string | undefined;
    readonly corsOrigins: readonly string[];
    /** Requests per tenant and second in this process; 0: no limit. */
    readonly rateLimit: number;
    readonly shutdownGrace: number;
  };
  readonly logLevel: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace';
  readonly database: {
    /** Undefined: the embedded Postgres. */
    readonly url: string | undefined;
    /** For the owner of the tables; undefined: the same as `url`. */
    readonly migrationUrl: string | undefined;
    readonly poolSize: number;
    readonly embeddedDirectory: string | undefined;
    readonly seedDemoTenants: boolean;
  };
  readonly idempotency: {
    readonly retention: number;
    readonly wait: number;
    readonly lease: number;
    readonly cleanupInterval: number;
  };
  readonly messaging: {
    readonly eventRetention: number;
    readonly inboxRetention: number;
    /** Undefined: events go to the consumers of the same process. */
    readonly broker:
      | {
          readonly url: string;
          /** Begins the names of its exchanges and queues. */
          readonly prefix: string;
        }
      | undefined;
  };
  readonly notifications: {
    /** Carries a password. Undefined: files beside the embedded database, else no mails. */
    readonly smtpUrl: string | undefined;
  };
  readonly payments: {
    /** For each call to a provider, as a whole. */
    readonly providerTimeout: number;
    readonly reconciliationInterval: number;
    /** How long after its first call a payment that no provider shows is held open. */
    readonly giveUp: number;
    /** Without `secretKey` and `apiBase`: the sandbox. */
    readonly stripe: {
      readonly secretKey: string | undefined;
      /** Scheme, host and port; undefined: Stripe's own. */
      readonly apiBase: string | undefined;
      readonly webhookSecret: string | undefined;
    };
    /** What the bank's paths follow, without a slash at its end; undefined: the sandbox. */
    readonly bankApiBase: string | undefined;
    readonly sandbox: {
      /** 0: a free one. */
      readonly port: number;
      /** For a sandbox that runs alone; undefined: an embedded database. */
      readonly databaseUrl: string | undefined;
    };
  };
}

/**
 * Turns environment variables into settings. An empty variable counts as unset.
 *
 * @throws SettingsError with every fault at once
 */
export function loadSettings(variables: Readonly<Record<string, string | undefined>>): Settings {
  const given = Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
  const env: Record<string, unknown> = {};
  const faults: string[] = [];
  for (const [name, schema] of Object.entries(environment.shape)) {
    const parsed = schema.safeParse(given[name]);
    if (!parsed.success) faults.push(...parsed.error.issues.map((issue) => `${name} ${issue.message}`));
    else if (parsed.data !== undefined) env[name] = parsed.data;
  }
  faults.push(...brokenRules(env, given));
  if (faults.length > 0) throw new SettingsError(faults);
  return settingsFrom(env as Environment);
}

function settingsFrom(env: Environment): Settings {
  const embedded = env.DATABASE_URL === undefined;
  return {
    production: env.NODE_ENV === 'production',
    http: {
      port: env.PORT,
      host: env.HOST ?? (embedded ? '127.0.0.1' : '0.0.0.0'),
      publicUrl: env.PUBLIC_URL?.replace(/\/+$/, ''),
      corsOrigins: env.CORS_ORIGINS,
      rateLimit: env.RATE_LIMIT,
      shutdownGrace: env.SHUTDOWN_GRACE,
    },
    logLevel: env.LOG_LEVEL,
    database: {
      url: env.DATABASE_URL,
      migrationUrl: env.MIGRATION_DATABASE_URL ?? env.DATABASE_URL,
      poolSize: env.DATABASE_POOL_SIZE,
      embeddedDirectory: env.EMBEDDED_DATABASE_DIR,
      seedDemoTenants: env.SEED_DEMO_TENANTS ?? embedded,
    },
    idempotency: {
      retention: env.IDEMPOTENCY_RETENTION,
      wait: env.IDEMPOTENCY_WAIT,
      lease: env.IDEMPOTENCY_LEASE,
      cleanupInterval: env.IDEMPOTENCY_CLEANUP_INTERVAL,
    },
    messaging: {
      eventRetention: env.EVENT_RETENTION,
      inboxRetention: env.INBOX_RETENTION,
      broker: env.EVENTS_TRANSPORT === 'rabbitmq' ? { url: env.RABBITMQ_URL!, prefix: env.RABBITMQ_PREFIX } : undefined,
    },
    notifications: { smtpUrl: env.SMTP_URL },
    payments: {
      providerTimeout: env.PROVIDER_TIMEOUT,
      reconciliationInterval: env.RECONCILIATION_INTERVAL,
      giveUp: env.RECONCILIATION_GIVE_UP,
      stripe: {
        secretKey: env.STRIPE_SECRET_KEY,
        apiBase: env.STRIPE_API_BASE,
        webhookSecret: env.STRIPE_WEBHOOK_SECRET,
      },
      bankApiBase: env.BANK_API_BASE,
      sandbox: { port: env.SANDBOX_PORT, databaseUrl: env.SANDBOX_DATABASE_URL },
    },
  };
}
