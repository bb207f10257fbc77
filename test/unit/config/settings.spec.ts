import { describe, expect, it } from '@jest/globals';
import { loadSettings, type Settings, SettingsError } from '../../../src/config/settings.js';

type Variables = Record<string, string | undefined>;

const URL_WITH_SECRET = 'postgres://orders:hunter2@db.example:5432/orders';

/** The faults that these variables are refused for. */
function faultsOf(variables: Variables): readonly string[] {
  try {
    loadSettings(variables);
  } catch (error) {
    expect(error).toBeInstanceOf(SettingsError);
    return (error as SettingsError).faults;
  }
  return [];
}

describe('settings that nobody made', () => {
  it('are those of the contract, on the embedded database', () => {
    expect(loadSettings({})).toMatchObject({
      production: false,
      http: {
        port: 3000,
        host: '127.0.0.1',
        publicUrl: undefined,
        corsOrigins: [],
        rateLimit: 500,
        shutdownGrace: 8_000,
      },
      logLevel: 'info',
      database: {
        url: undefined,
        migrationUrl: undefined,
        poolSize: 10,
        embeddedDirectory: undefined,
        seedDemoTenants: true,
      },
      idempotency: { retention: 86_400_000, wait: 2_000, lease: 30_000, cleanupInterval: 60_000 },
      notifications: { smtpUrl: undefined },
      payments: {
        providerTimeout: 10_000,
        reconciliationInterval: 30_000,
        giveUp: 90_000_000,
        stripe: { secretKey: undefined, apiBase: undefined, webhookSecret: undefined },
        bankApiBase: undefined,
        sandbox: { port: 4242, databaseUrl: undefined },
      },
    });
  });

  it('follow from DATABASE_URL where there is one', () => {
    const { http, database } = loadSettings({ DATABASE_URL: URL_WITH_SECRET });

    expect(http.host).toBe('0.0.0.0');
    expect(database).toMatchObject({ url: URL_WITH_SECRET, migrationUrl: URL_WITH_SECRET, seedDemoTenants: false });
  });

  it('count as unset when they are empty', () => {
    const names = [
      ...['NODE_ENV', 'PORT', 'HOST', 'PUBLIC_URL', 'LOG_LEVEL', 'CORS_ORIGINS', 'RATE_LIMIT', 'SHUTDOWN_GRACE'],
      ...['DATABASE_URL', 'MIGRATION_DATABASE_URL', 'DATABASE_POOL_SIZE', 'EMBEDDED_DATABASE_DIR', 'SEED_DEMO_TENANTS'],
      ...['IDEMPOTENCY_RETENTION', 'IDEMPOTENCY_WAIT', 'IDEMPOTENCY_LEASE', 'IDEMPOTENCY_CLEANUP_INTERVAL'],
      ...[
        'PROVIDER_TIMEOUT',
        'EVENT_RETENTION',
        'INBOX_RETENTION',
        'RECONCILIATION_INTERVAL',
        'RECONCILIATION_GIVE_UP',
      ],
      ...['STRIPE_SECRET_KEY', 'STRIPE_API_BASE', 'STRIPE_WEBHOOK_SECRET', 'BANK_API_BASE'],
      ...['SANDBOX_PORT', 'SANDBOX_DATABASE_URL', 'SMTP_URL'],
      ...['EVENTS_TRANSPORT', 'RABBITMQ_URL', 'RABBITMQ_PREFIX'],
    ];

    expect(loadSettings(Object.fromEntries(names.map((name) => [name, ''])))).toEqual(loadSettings({}));
    expect(faultsOf({ NODE_ENV: 'production', DATABASE_URL: '' })).toEqual([
      'DATABASE_URL is required when NODE_ENV is production',
    ]);
  });
});

describe('a setting', () => {
  const given: [Variables, (settings: Settings) => unknown, unknown][] = [
    [{ PORT: '0' }, ({ http }) => http.port, 0],
    [{ PORT: '65535' }, ({ http }) => http.port, 65_535],
    [{}, ({ messaging }) => messaging.broker, undefined],
    [{ RABBITMQ_URL: 'amqp://mq' }, ({ messaging }) => messaging.broker, undefined],
    [
      { EVENTS_TRANSPORT: 'rabbitmq', RABBITMQ_URL: 'amqps://orders:pw@mq/shop' },
      ({ messaging }) => messaging.broker,
      { url: 'amqps://orders:pw@mq/shop', prefix: 'orders' },
    ],
    [
      { EVENTS_TRANSPORT: 'rabbitmq', RABBITMQ_URL: 'amqp://mq', RABBITMQ_PREFIX: 'shop.staging' },
      ({ messaging }) => messaging.broker?.prefix,
      'shop.staging',
    ],
    [{ HOST: '::1' }, ({ http }) => http.host, '::1'],
    [{ PUBLIC_URL: 'https://shop.example/api/' }, ({ http }) => http.publicUrl, 'https://shop.example/api'],
    [
      { CORS_ORIGINS: ' https://a.example , https://b.example,' },
      ({ http }) => http.corsOrigins,
      ['https://a.example', 'https://b.example'],
    ],
    [{ CORS_ORIGINS: '*' }, ({ http }) => http.corsOrigins, ['*']],
    [{ RATE_LIMIT: '0' }, ({ http }) => http.rateLimit, 0],
    [{ LOG_LEVEL: 'trace' }, ({ logLevel }) => logLevel, 'trace'],
    [
      { DATABASE_URL: 'postgresql:///orders?host=/run/pg' },
      ({ database }) => database.url,
      'postgresql:///orders?host=/run/pg',
    ],
    [
      { DATABASE_URL: URL_WITH_SECRET, MIGRATION_DATABASE_URL: 'postgres://owner@db/orders' },
      ({ database }) => database.migrationUrl,
      'postgres://owner@db/orders',
    ],
    [{ DATABASE_POOL_SIZE: '1' }, ({ database }) => database.poolSize, 1],
    [{ SEED_DEMO_TENANTS: 'false' }, ({ database }) => database.seedDemoTenants, false],
    [{ SEED_DEMO_TENANTS: 'true', DATABASE_URL: URL_WITH_SECRET }, ({ database }) => database.seedDemoTenants, true],
    [{ EMBEDDED_DATABASE_DIR: '/srv/db' }, ({ database }) => database.embeddedDirectory, '/srv/db'],
    [{ NODE_ENV: 'production', DATABASE_URL: URL_WITH_SECRET }, ({ production }) => production, true],
    [{ NODE_ENV: 'staging' }, ({ production }) => production, false],
    [{ IDEMPOTENCY_WAIT: '0s' }, ({ idempotency }) => idempotency.wait, 0],
    [{ IDEMPOTENCY_RETENTION: '500ms' }, ({ idempotency }) => idempotency.retention, 500],
    [{ IDEMPOTENCY_RETENTION: '90s' }, ({ idempotency }) => idempotency.retention, 90_000],
    [{ IDEMPOTENCY_RETENTION: '5m' }, ({ idempotency }) => idempotency.retention, 300_000],
    [{ IDEMPOTENCY_RETENTION: '24h' }, ({ idempotency }) => idempotency.retention, 86_400_000],
    [{ IDEMPOTENCY_RETENTION: '30d' }, ({ idempotency }) => idempotency.retention, 2_592_000_000],
    [{ PROVIDER_TIMEOUT: '2s' }, ({ payments }) => payments.providerTimeout, 2_000],
    [{ RECONCILIATION_INTERVAL: '1s' }, ({ payments }) => payments.reconciliationInterval, 1_000],
    [{ RECONCILIATION_GIVE_UP: '30d' }, ({ payments }) => payments.giveUp, 2_592_000_000],
    [
      { STRIPE_SECRET_KEY: 'sk_live_1', STRIPE_WEBHOOK_SECRET: 'whsec_1' },
      ({ payments }) => payments.stripe,
      { secretKey: 'sk_live_1', apiBase: undefined, webhookSecret: 'whsec_1' },
    ],
    [{ STRIPE_API_BASE: 'http://[::1]:4242/' }, ({ payments }) => payments.stripe.apiBase, 'http://[::1]:4242'],
    [
      { BANK_API_BASE: 'https://gate:key@bank.example/api//' },
      ({ payments }) => payments.bankApiBase,
      'https://gate:key@bank.example/api',
    ],
    ...[
      'smtp://127.0.0.1:1025',
      'smtps://me%40shop.example:p%40ss@mail.example',
      'smtp://[::1]:25/?from=receipts@shop.example&requireTLS=true',
    ].map((url): [Variables, (settings: Settings) => unknown, unknown] => [
      { SMTP_URL: url },
      ({ notifications }) => notifications.smtpUrl,
      url,
    ]),
    [{ SANDBOX_PORT: '0' }, ({ payments }) => payments.sandbox.port, 0],
    [{ SANDBOX_DATABASE_URL: URL_WITH_SECRET }, ({ payments }) => payments.sandbox.databaseUrl, URL_WITH_SECRET],
  ];

  it.each(given)('is read: %j', (variables, read, expected) => {
    expect(read(loadSettings(variables))).toEqual(expected);
  });

  it.each<[Variables, string]>([
    ...['65536', '-1', '3000.5', '3e3', '0x10', ' 3000', 'http'].map((PORT): [Variables, string] => [{ PORT }, 'PORT']),
    ...['0', '1001', 'ten'].map((size): [Variables, string] => [{ DATABASE_POOL_SIZE: size }, 'DATABASE_POOL_SIZE']),
    [{ RATE_LIMIT: '-1' }, 'RATE_LIMIT'],
    [{ LOG_LEVEL: 'verbose' }, 'LOG_LEVEL'],
    [{ PUBLIC_URL: 'shop.example' }, 'PUBLIC_URL'],
    [{ PUBLIC_URL: 'ftp://shop.example' }, 'PUBLIC_URL'],
    [{ CORS_ORIGINS: 'https://a.example,shop.example' }, 'CORS_ORIGINS'],
    [{ CORS_ORIGINS: 'localhost:3000' }, 'CORS_ORIGINS'],
    [{ DATABASE_URL: 'localhost:5432/orders' }, 'DATABASE_URL'],
    [{ DATABASE_URL: 'mysql://db/orders' }, 'DATABASE_URL'],
    [{ MIGRATION_DATABASE_URL: 'db' }, 'MIGRATION_DATABASE_URL'],
    [{ SEED_DEMO_TENANTS: 'yes' }, 'SEED_DEMO_TENANTS'],
    [{ SEED_DEMO_TENANTS: 'TRUE' }, 'SEED_DEMO_TENANTS'],
    ...['30', '30 s', '1.5h', '-1s', 's', '1w', '30S', '1h30m', '9999999999999ms', '3651d'].map(
      (IDEMPOTENCY_RETENTION): [Variables, string] => [{ IDEMPOTENCY_RETENTION }, 'IDEMPOTENCY_RETENTION'],
    ),
    [{ IDEMPOTENCY_RETENTION: '0s' }, 'IDEMPOTENCY_RETENTION'],
    [{ SHUTDOWN_GRACE: '0s' }, 'SHUTDOWN_GRACE'],
    [{ IDEMPOTENCY_CLEANUP_INTERVAL: '0ms' }, 'IDEMPOTENCY_CLEANUP_INTERVAL'],
    [{ IDEMPOTENCY_CLEANUP_INTERVAL: '25d' }, 'IDEMPOTENCY_CLEANUP_INTERVAL'],
    [{ IDEMPOTENCY_WAIT: '25d' }, 'IDEMPOTENCY_WAIT'],
    [{ RECONCILIATION_INTERVAL: '0s' }, 'RECONCILIATION_INTERVAL'],
    [{ RECONCILIATION_INTERVAL: '25d' }, 'RECONCILIATION_INTERVAL'],
    [{ RECONCILIATION_GIVE_UP: '0s' }, 'RECONCILIATION_GIVE_UP'],
    ...['sk_live_1\n', 'sk live', 'sk_live_é'].map((STRIPE_SECRET_KEY): [Variables, string] => [
      { STRIPE_SECRET_KEY },
      'STRIPE_SECRET_KEY',
    ]),
    [{ STRIPE_WEBHOOK_SECRET: 'whsec_1 ' }, 'STRIPE_WEBHOOK_SECRET'],
    ...['api.stripe.com', 'ftp://api.stripe.com', 'https://api.stripe.com/v1', 'https://me@api.stripe.com'].map(
      (STRIPE_API_BASE): [Variables, string] => [{ STRIPE_API_BASE }, 'STRIPE_API_BASE'],
    ),
    ...['bank', 'ftp://bank', 'http://bank/?a=1', 'http://bank/#a'].map((BANK_API_BASE): [Variables, string] => [
      { BANK_API_BASE },
      'BANK_API_BASE',
    ]),
    ...[
      ...['mail.example:25', 'http://mail.example', 'smtp://', 'smtp:///path', 'smtp://mail.example/inbox'],
      ...['smtp://mail.example:99999', 'smtp://me:100%@mail.example', 'smtp://mail.example?logger=true'],
      ...['smtp://mail.example?from=a@b.example%0ABcc:c@d.example', 'smtp://mail.example?requireTLS=yes'],
    ].map((SMTP_URL): [Variables, string] => [{ SMTP_URL }, 'SMTP_URL']),
    [{ SANDBOX_PORT: '65536' }, 'SANDBOX_PORT'],
    [{ SANDBOX_DATABASE_URL: 'mysql://db' }, 'SANDBOX_DATABASE_URL'],
    [{ EVENTS_TRANSPORT: 'kafka' }, 'EVENTS_TRANSPORT'],
    [{ EVENTS_TRANSPORT: 'rabbitmq' }, 'RABBITMQ_URL'],
    [{ EVENTS_TRANSPORT: 'rabbitmq', RABBITMQ_URL: 'mq:5672' }, 'RABBITMQ_URL'],
    [{ RABBITMQ_PREFIX: 'a b' }, 'RABBITMQ_PREFIX'],
  ])('that is not valid stops the start and is named: %j', (variables, name) => {
    expect(faultsOf(variables)).toEqual([expect.stringMatching(new RegExp(`^${name} `))]);
  });
});

describe('settings that do not fit together', () => {
  it.each<[Variables, boolean]>([
    [{ IDEMPOTENCY_LEASE: '21s' }, true],
    [{ IDEMPOTENCY_LEASE: '20999ms' }, false],
    [{ PROVIDER_TIMEOUT: '14500ms' }, true],
    [{ PROVIDER_TIMEOUT: '14501ms' }, false],
    [{ IDEMPOTENCY_LEASE: '5s', PROVIDER_TIMEOUT: '2s' }, true],
    [{ IDEMPOTENCY_LEASE: '4s', PROVIDER_TIMEOUT: '2s' }, false],
  ])('IDEMPOTENCY_LEASE is at least 2 x PROVIDER_TIMEOUT + 1 s: %j fits: %j', (variables, fits) => {
    expect(faultsOf(variables)).toEqual(fits ? [] : [expect.stringMatching(/^IDEMPOTENCY_LEASE .*PROVIDER_TIMEOUT/)]);
  });

  it.each<[Variables, boolean]>([
    [{ EVENT_RETENTION: '34d' }, true],
    [{ EVENT_RETENTION: '35d' }, false],
    [{ INBOX_RETENTION: '30d' }, false],
    [{ INBOX_RETENTION: '2h', EVENT_RETENTION: '1h' }, true],
  ])('INBOX_RETENTION is longer than EVENT_RETENTION: %j fits: %j', (variables, fits) => {
    expect(faultsOf(variables)).toEqual(fits ? [] : [expect.stringMatching(/^INBOX_RETENTION .*EVENT_RETENTION/)]);
  });

  it('are held to no rule beside the two', () => {
    const odd = { IDEMPOTENCY_RETENTION: '1ms', IDEMPOTENCY_WAIT: '1h', SHUTDOWN_GRACE: '1ms', EVENT_RETENTION: '1ms' };
    expect(faultsOf({ ...odd, INBOX_RETENTION: '2ms', IDEMPOTENCY_CLEANUP_INTERVAL: '24d' })).toEqual([]);
  });

  it('are not reported beside a fault in one of them', () => {
    expect(faultsOf({ IDEMPOTENCY_LEASE: 'soon' })).toEqual([expect.stringMatching(/^IDEMPOTENCY_LEASE is "soon"/)]);
  });
});

describe('production', () => {
  it('needs a database of its own', () => {
    expect(faultsOf({ NODE_ENV: 'production' })).toEqual(['DATABASE_URL is required when NODE_ENV is production']);
  });

  it('refuses the demo tenants, whose keys are public', () => {
    const faults = faultsOf({ NODE_ENV: 'production', DATABASE_URL: URL_WITH_SECRET, SEED_DEMO_TENANTS: 'true' });

    expect(faults).toEqual([expect.stringMatching(/^SEED_DEMO_TENANTS .*production/)]);
  });
});

describe('a start that is refused', () => {
  const wrong = {
    PORT: 'x',
    RATE_LIMIT: '-1',
    LOG_LEVEL: 'loud',
    DATABASE_URL: 'mysql://root:hunter2@db/orders',
    MIGRATION_DATABASE_URL: 'mysql://owner:hunter3@db/orders',
    PUBLIC_URL: 'gopher://user:hunter4@shop.example',
    SEED_DEMO_TENANTS: 'perhaps',
    IDEMPOTENCY_RETENTION: 'long',
    IDEMPOTENCY_LEASE: '1s',
    INBOX_RETENTION: '1d',
    STRIPE_SECRET_KEY: 'sk_live_hunter6\n',
    STRIPE_API_BASE: 'https://root:hunter7@api.stripe.com',
    STRIPE_WEBHOOK_SECRET: 'whsec_hunter8 ',
    BANK_API_BASE: 'https://root:hunter9@bank.example/?key=hunter9',
    SANDBOX_DATABASE_URL: 'mysql://root:hunter10@db/sandbox',
    SMTP_URL: 'smtp://root:hunter11@mail.example?pool=hunter11',
    EVENTS_TRANSPORT: 'kafka',
    RABBITMQ_URL: 'http://root:hunter12@mq',
    RABBITMQ_PREFIX: 'owner of it',
  };

  it('lists every fault at once, each on a line of its own', () => {
    const faults = faultsOf(wrong);

    expect(faults.map((fault) => fault.split(' ')[0]).sort()).toEqual(Object.keys(wrong).sort());
    const { message } = new SettingsError(faults);
    expect(message.split('\n')).toHaveLength(1 + faults.length);
    for (const fault of faults) expect(message).toContain(fault);
  });

  it('tells no secret', () => {
    const broken = { ...wrong, MIGRATION_DATABASE_URL: 'postgres://owner:hunter5@[db/orders' };
    for (const variables of [wrong, broken]) {
      expect(faultsOf(variables).length).toBeGreaterThan(5);
      expect(faultsOf(variables).join('\n')).not.toMatch(/hunter|root|owner/);
    }
  });
});
