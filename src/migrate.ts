import { MIGRATIONS } from '../migrations/index.js';
import { runCommand } from './config/run-command.js';
import { migrate } from './database/migrator.js';
import { withDatabase } from './database/with-database.js';

/**
 * `npm run migrate`: brings the database's schema up to date, as the owner of its tables.
 *
 * `--unless-embedded`: leaves the embedded database alone, which the service migrates itself when it starts.
 */
await runCommand(async ({ database }) => {
  if (database.url === undefined && process.argv.includes('--unless-embedded')) return;
  await withDatabase({ ...database, url: database.migrationUrl }, async (url) => {
    const names = await migrate(url, MIGRATIONS);
    console.log(names.length === 0 ? 'The database is up to date.' : `Migrated: ${names.join(', ')}`);
  });
});
