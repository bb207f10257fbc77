import { readdirSync } from 'node:fs';
import js from '@eslint/js';
import prettier from 'eslint-config-prettier';
import { createNodeResolver, importX } from 'eslint-plugin-import-x';
import tseslint from 'typescript-eslint';

/**
 * Imports run downwards only: features -> mechanisms -> database -> config. `from` lists what may not be imported by
 * `target`. Features meet only in payments -> orders and feeds -> orders.
 */
const MECHANISMS = ['idempotency', 'messaging', 'tenants', 'http', 'operations'];
const STANDS_ALONE = ['sandbox', 'client'];
const MAY_USE = { payments: ['orders'], feeds: ['orders'] };
// Every folder that is nothing else: a new feature is held to the rules without being named here.
const FEATURES = readdirSync(new URL('src', import.meta.url), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .filter((name) => ![...MECHANISMS, ...STANDS_ALONE, 'database', 'config'].includes(name));
const src = (folders) => folders.map((folder) => `./src/${folder}`);

const zones = [
  { target: './src/config', from: src([...FEATURES, ...MECHANISMS, ...STANDS_ALONE, 'database']) },
  { target: './src/database', from: src([...FEATURES, ...MECHANISMS, ...STANDS_ALONE]) },
  ...src(MECHANISMS).map((target) => ({ target, from: src([...FEATURES, ...STANDS_ALONE]) })),
  // What a team lifts into a service of its own: these folders know no tenant directory and no outbox.
  { target: './src/idempotency', from: src(['tenants', 'messaging', 'operations']) },
  { target: './src/http', from: src(['idempotency', 'tenants', 'messaging', 'operations']) },
  // Nor the settings: they take their options from whoever puts them together.
  ...['database', 'http', 'idempotency'].map((lifted) => ({
    target: `./src/${lifted}`,
    from: './src/config',
    except: ['./telemetry.ts'],
  })),
  ...FEATURES.map((feature) => {
    const others = FEATURES.filter((other) => other !== feature && !MAY_USE[feature]?.includes(other));
    return { target: `./src/${feature}`, from: src([...others, ...STANDS_ALONE]) };
  }),
  { target: './src/client', from: './src', except: ['./client'] },
  { target: ['./src', './migrations'], from: ['./demo', './bench', './test'] },
].map((zone) => ({ ...zone, message: 'Imports run downwards: features -> mechanisms -> database -> config.' }));

/** Everything that a request writes goes through the unit of work; whatever opens another way bypasses it. */
const BESIDE_THE_UNIT_OF_WORK = [
  { name: '@nestjs/typeorm', importNames: ['InjectRepository', 'InjectDataSource', 'InjectEntityManager'] },
  { name: 'typeorm', importNames: ['DataSource', 'Repository', 'QueryRunner'] },
  { name: 'pg', allowTypeImports: true },
].map((path) => ({ ...path, message: 'Use the UnitOfWork: beside it a write is in no transaction.' }));

export default tseslint.config(
  { ignores: ['.ci/', 'dist/', 'coverage/', '.embedded-postgres*/'] },
  js.configs.recommended,
  ...tseslint.configs.recommendedTypeChecked,
  prettier,
  {
    languageOptions: { parserOptions: { projectService: true } },
    plugins: { 'import-x': importX },
    settings: {
      'import-x/resolver-next': [createNodeResolver({ extensionAlias: { '.js': ['.ts', '.js'] } })],
      'import-x/extensions': ['.ts', '.js'], // what is not named here is not read when circles are looked for
    },
    rules: {
      'import-x/no-restricted-paths': ['error', { zones }],
      'import-x/no-cycle': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      // Decorated parameters are seen at run time: a type import would erase the class that Nest looks for.
      '@typescript-eslint/require-await': 'off',
    },
  },
  {
    files: ['src/**/*.ts'],
    ignores: ['src/database/**', 'src/**/*.command.ts', 'src/sandbox/**'],
    rules: { '@typescript-eslint/no-restricted-imports': ['error', { paths: BESIDE_THE_UNIT_OF_WORK }] },
  },
  {
    files: ['test/**'],
    rules: {
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
  {
    ...tseslint.configs.disableTypeChecked,
    files: ['**/*.js', '**/*.mjs'],
    languageOptions: {
      ...tseslint.configs.disableTypeChecked.languageOptions,
      globals: Object.fromEntries(
        [
          'process',
          'console',
          'URL',
          'Buffer',
          'performance',
          'setTimeout',
          'clearTimeout',
          'setImmediate',
          'fetch',
        ].map((name) => [name, 'readonly']),
      ),
    },
  },
);
