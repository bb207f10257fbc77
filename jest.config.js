/** @type {import('jest').Config} */
const shared = {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', {}] },
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
};

/** @type {import('jest').Config} */
const config = {
  // The machine's cores belong to the service and to Postgres as well.
  maxWorkers: 2,
  // Under ES modules a worker keeps what each of its files has loaded: after a hundred files it did little but collect.
  workerIdleMemoryLimit: '800MB',
  coverageProvider: 'v8',
  // Entry points run in processes of their own, where this does not look.
  collectCoverageFrom: [
    'src/**/*.ts',
    '!src/{main,migrate}.ts',
    '!src/**/*.command.ts',
    // Its tests are skipped where there is no broker.
    ...(process.env.RABBITMQ_URL ? [] : ['!src/messaging/transports/rabbitmq/**']),
  ],
  coverageReporters: ['text', 'lcovonly'],
  coverageThreshold: { global: { lines: 94, statements: 94, branches: 93, functions: 94 } },
  projects: [
    { ...shared, displayName: 'unit', testMatch: ['<rootDir>/test/unit/**/*.spec.ts'] },
    {
      ...shared,
      displayName: 'e2e',
      testMatch: ['<rootDir>/test/**/*.e2e-spec.ts'],
      globalSetup: '<rootDir>/test/support/global-setup.js',
      globalTeardown: '<rootDir>/test/support/global-teardown.js',
      setupFilesAfterEnv: ['<rootDir>/test/support/setup.ts'],
    },
  ],
};

export default config;
