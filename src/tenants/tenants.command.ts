import { DataSource } from 'typeorm';
import { runCommand } from '../config/run-command.js';
import { AcrossTenants } from '../database/across-tenants.js';
import { dataSourceOptions } from '../database/data-source.js';
import { withDatabase } from '../database/with-database.js';
import { type IssuedKey, TenantDirectory, TenantError } from './tenant-directory.js';

const USAGE = `Usage:
  npm run tenants -- create NAME     a new tenant and its first API key
  npm run tenants -- rotate NAME     another API key for the tenant; the others work until they are revoked
  npm run tenants -- revoke KEY-ID   the key stops working within five seconds
  npm run tenants -- list            tenants and their keys`;

type Command = (directory: TenantDirectory, argument: string) => Promise<void>;

const COMMANDS = new Map<string, Command>(
  Object.entries<Command>({
    create: async (directory, name) => tell(await directory.create(name)),
    rotate: async (directory, name) => tell(await directory.rotate(name)),
    revoke: async (directory, keyId) => {
      await directory.revoke(keyId);
      console.log(`The key ${keyId} is revoked.`);
    },
    list: async (directory) => {
      const keys = await directory.list();
      if (keys.length === 0) return console.log('There is no tenant yet.');
      for (const { tenant, keyId, hint, createdAt, revokedAt } of keys) {
        const state = revokedAt ? `revoked ${revokedAt.toISOString()}` : 'active';
        console.log(`${tenant}  ${keyId}  ${hint}...  made ${createdAt.toISOString()}  ${state}`);
      }
    },
  }),
);

function tell({ tenantId, keyId, key }: IssuedKey): void {
  console.log(`tenant ${tenantId}\nkey id ${keyId}\nkey    ${key}\n\nKeep the key now: it is not shown again.`);
}

/** `npm run tenants`: who may use the service. */
await runCommand(async ({ database }) => {
  const [command, argument, ...rest] = process.argv.slice(2);
  const run = COMMANDS.get(command ?? '');
  const complete = command === 'list' ? argument === undefined : argument !== undefined && rest.length === 0;
  if (!run || !complete) throw new TenantError(USAGE);
  await withDatabase(database, async (url) => {
    const dataSource = await new DataSource(dataSourceOptions({ url, poolSize: 1, longestWait: 0 })).initialize();
    try {
      await run(new TenantDirectory(new AcrossTenants(dataSource)), argument ?? '');
    } finally {
      await dataSource.destroy();
    }
  });
});
