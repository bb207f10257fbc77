import { DataSource } from 'typeorm';
import { runCommand } from './config/run-command.js';
import { AcrossTenants } from './database/across-tenants.js';
import { dataSourceOptions } from './database/data-source.js';
import { UnitOfWork } from './database/unit-of-work.js';
import { withDatabase } from './database/with-database.js';
import { type DeadEventAction, DeadEvents } from './messaging/dead-events.js';

const USAGE = `Usage:
  npm run outbox -- list                events that could not be delivered
  npm run outbox -- retry EVENT-ID      deliver it again, with a clean record
  npm run outbox -- skip EVENT-ID       let those behind it go on; it may be retried later
  npm run outbox -- discard EVENT-ID    never deliver it`;

const ACTIONS: readonly string[] = ['retry', 'skip', 'discard'] satisfies DeadEventAction[];

async function list(dead: DeadEvents): Promise<void> {
  const events = await dead.list();
  if (events.length === 0) return console.log('There is no dead event.');
  for (const { id, tenantId, type, subject, aggregateVersion, attempts, reason, deadAt, resolution } of events) {
    const state = resolution ?? 'holds up its aggregate';
    console.log(`${id}  ${type}  ${deadAt.toISOString()}  ${state}`);
    console.log(
      `  tenant ${tenantId}  subject ${subject}  version ${aggregateVersion}  attempts ${attempts}\n  ${reason}`,
    );
  }
}

async function decide(dead: DeadEvents, id: string, action: DeadEventAction): Promise<void> {
  if (!(await dead.decide(id, action))) throw new Error(`There is no dead event ${id}.`);
  console.log(`${action}: ${id}`);
}

/** `npm run outbox`: the events that could not be delivered. */
await runCommand(async ({ database }) => {
  const [action, id, ...rest] = process.argv.slice(2);
  const decides = ACTIONS.includes(action ?? '') && id !== undefined && rest.length === 0;
  if (!decides && !(action === 'list' && id === undefined)) throw new Error(USAGE);
  await withDatabase(database, async (url) => {
    const dataSource = await new DataSource(dataSourceOptions({ url, poolSize: 2, longestWait: 0 })).initialize();
    const dead = new DeadEvents(new UnitOfWork(dataSource), new AcrossTenants(dataSource));
    try {
      await (decides ? decide(dead, id, action as DeadEventAction) : list(dead));
    } finally {
      await dataSource.destroy();
    }
  });
});
