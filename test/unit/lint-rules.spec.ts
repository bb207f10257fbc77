import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { ESLint } from 'eslint';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

const eslint = new ESLint({ cwd: ROOT });

/** The rules that a file of that content would break if it stood there. */
async function brokenRules(filePath: string, text: string): Promise<(string | null)[]> {
  const [result] = await eslint.lintText(text, { filePath: `${ROOT}/${filePath}` });
  return result!.messages.map(({ ruleId }) => ruleId);
}

// Existing files: type-aware rules need one that the project includes.
describe('lint fails', () => {
  it.each([
    ['src/idempotency/recent-keys.ts', `import '../orders/orders.service.js';`],
    ['src/http/pagination.ts', `export const later = () => import('../orders/orders.service.js');`],
    ['src/database/sql-state.ts', `import type { Problem } from '../http/problem.js';\nexport type P = Problem;`],
    ['src/idempotency/recent-keys.ts', `import '../tenants/login.js';`],
  ])('when a mechanism imports what stands above it: %s', async (file, text) => {
    expect(await brokenRules(file, text)).toContain('import-x/no-restricted-paths');
  });

  // [where it is written, what it must not import]
  it.each([
    ['src/config/duration.ts', '../database/sql-state.js'],
    ['src/config/duration.ts', '../orders/orders.service.js'],
    ['src/database/sql-state.ts', '../orders/orders.service.js'],
    ['src/database/sql-state.ts', '../config/settings.js'],
    ['src/http/pagination.ts', '../config/settings.js'],
    ['src/idempotency/recent-keys.ts', '../config/settings.js'],
    ['src/tenants/login.ts', '../orders/orders.service.js'],
    ['src/messaging/outbox.ts', '../orders/orders.service.js'],
    ['src/operations/drain.ts', '../orders/orders.service.js'],
    ['src/http/pagination.ts', '../idempotency/recent-keys.js'],
    ['src/http/pagination.ts', '../tenants/login.js'],
    ['src/idempotency/recent-keys.ts', '../messaging/outbox.js'],
    ['src/idempotency/recent-keys.ts', '../operations/drain.js'],
    ['src/notifications/receipt.ts', '../orders/order-content.js'],
    ['src/notifications/receipt.ts', '../payments/payment.entity.js'],
    ['src/payments/payment-ledger.ts', '../notifications/receipt.js'],
    ['src/messaging/outbox.ts', '../notifications/receipt.js'],
    ['src/orders/order-content.ts', '../payments/providers/payment-provider.js'],
    ['src/client/waiting.ts', '../config/duration.js'],
    ['src/client/waiting.ts', '../http/problem.js'],
    ['src/orders/order-content.ts', '../client/index.js'],
    ['src/orders/order-content.ts', '../../demo/verdict.js'],
    ['src/app.module.ts', '../test/support/wait-for.js'],
  ])('in %s when it imports %s', async (file, imported) => {
    expect(await brokenRules(file, `import '${imported}';`)).toContain('import-x/no-restricted-paths');
  });

  it('when files import each other in a circle', async () => {
    const text = `import { configureApp } from './configure-app.js';\nexport const c = configureApp;\n`;
    expect(await brokenRules('src/app.module.ts', text)).toContain('import-x/no-cycle');
  });

  it('when something is left unused, or a type imported as if it were a value', async () => {
    const text = `import { Problem } from '../http/problem.js';\nconst unused = 1;\nexport type P = Problem;\n`;
    expect((await brokenRules('src/orders/order-content.ts', text)).sort()).toEqual([
      '@typescript-eslint/consistent-type-imports',
      '@typescript-eslint/no-unused-vars',
    ]);
  });

  it('when a promise floats', async () => {
    const text = `const write = async (): Promise<void> => undefined;\nexport function go(): void {\n  write();\n}\n`;
    expect(await brokenRules('src/orders/order-content.ts', text)).toContain('@typescript-eslint/no-floating-promises');
  });

  it.each([
    ...['InjectRepository', 'InjectDataSource', 'InjectEntityManager'].map(
      (name) => `import { ${name} } from '@nestjs/typeorm';\nexport const I = ${name};`,
    ),
    ...['DataSource', 'Repository', 'QueryRunner'].map(
      (name) => `import { ${name} } from 'typeorm';\nexport const D = ${name};`,
    ),
    `import pg from 'pg';\nexport const pool = new pg.Pool();`,
  ])('when a service touches the pool beside the unit of work: %s', async (text) => {
    expect(await brokenRules('src/orders/orders.service.ts', text)).toContain(
      '@typescript-eslint/no-restricted-imports',
    );
  });

  it('not when it keeps to the rules', async () => {
    const text = `import { UnitOfWork } from '../database/unit-of-work.js';\nexport const U = UnitOfWork;\n`;
    expect(await brokenRules('src/orders/orders.service.ts', text)).toEqual([]);
  });
});
