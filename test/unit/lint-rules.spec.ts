import { fileURLToPath } from 'node:url';
import { describe, expect, it } from '@jest/globals';
import { ESLint } from 'eslint';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The rules that a file of that content would break if it stood there. */
async function brokenRules(filePath: string, text: string): Promise<(string | null)[]> {
  const [result] = await new ESLint({ cwd: ROOT }).lintText(text, { filePath: `${ROOT}/${filePath}` });
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

  it('when a promise floats', async () => {
    const text = `const write = async (): Promise<void> => undefined;\nexport function go(): void {\n  write();\n}\n`;
    expect(await brokenRules('src/orders/order-content.ts', text)).toContain('@typescript-eslint/no-floating-promises');
  });

  it.each([
    `import { InjectRepository } from '@nestjs/typeorm';\nexport const I = InjectRepository;`,
    `import { DataSource } from 'typeorm';\nexport const D = DataSource;`,
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
