/**
 * How fast the service is, beside the ceiling of a hand-written server, on a real Postgres in one run. Nothing here is
 * passed or failed: machines differ. What must hold is checked, though: every answer, and the rows afterwards.
 */
import { cpus } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ServerProcess } from './child-process.js';
import { ThrowawayPostgres } from './database.js';
import { readOptions } from './options.js';
import { reportDifferences, reportRatios, reportSeries, reportStorage } from './report.js';
import { SCENARIOS } from './scenarios.js';
import { measure, Series } from './series.js';
import { measureStorage } from './storage.js';
import { readWire } from './wire.js';

const HERE = fileURLToPath(new URL('..', import.meta.url));
const SETTINGS = { SEED_DEMO_TENANTS: 'true', LOG_LEVEL: 'error', RATE_LIMIT: '0', DATABASE_POOL_SIZE: '10' };
/** What the ceiling can do. */
const CEILING = ['keyed', 'replay'];

const options = readOptions();
const scenarios = options.only.filter((part) => part in SCENARIOS);
const startService = (checkout) => (databaseUrl) =>
  ServerProcess.start(join(checkout, 'dist/src/main.js'), { ...SETTINGS, DATABASE_URL: databaseUrl });
const startCeiling = (databaseUrl) =>
  ServerProcess.start(join(HERE, 'bench/ceiling.js'), { ...SETTINGS, DATABASE_URL: databaseUrl });

/** Where the checkouts are, and what runs there. */
const candidates = [
  { name: 'service', checkout: HERE, start: startService(HERE), scenarios },
  ...options.against.map((path) => ({ ...elsewhere(resolve(path)), scenarios })),
  ...(options.ceiling
    ? [
        {
          name: 'ceiling',
          checkout: HERE,
          start: startCeiling,
          scenarios: scenarios.filter((s) => CEILING.includes(s)),
        },
      ]
    : []),
].filter(({ scenarios }) => scenarios.length > 0);

const RATIOS = [
  ['keyed ÷ ceiling', 'service/keyed', 'ceiling/keyed'],
  ["replay ÷ ceiling's replay", 'service/replay', 'ceiling/replay'],
  ['keyed ÷ unkeyed', 'service/keyed', 'service/unkeyed'],
  ['refusal ÷ keyed', 'service/refusal', 'service/keyed'],
  ...options.against.flatMap((path) => {
    const { name } = elsewhere(path);
    return scenarios.map((scenario) => [
      `${scenario}: ${name} ÷ service`,
      `${name}/${scenario}`,
      `service/${scenario}`,
    ]);
  }),
];

const postgres = await ThrowawayPostgres.start();
const opened = [];
const targets = [];
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => end().finally(() => process.exit(1)));
try {
  for (const { name, checkout, start, scenarios } of candidates) {
    const database = await postgres.createDatabase(`bench_${targets.length}`, checkout);
    opened.push(() => database.close());
    await seed(database, checkout, start);
    const server = await start(database.url);
    opened.push(() => server.stop());
    targets.push({ name, server, database, start, scenarios });
  }
  console.log(
    `Node ${process.version}, ${cpus().length} × ${cpus()[0].model}; ` +
      `${options.connections} connections, ${options.rounds} rounds of ${options.seconds} s`,
  );

  const all = scenarios.flatMap((scenario) =>
    targets.filter((target) => target.scenarios.includes(scenario)).map((target) => new Series(scenario, target)),
  );
  await measure(all, options, tell);
  const storage = options.only.includes('storage') && (await measureStorage(targets[0].database));
  const wires = new Map();
  if (options.only.includes('wire')) {
    for (const { name, start, database, scenarios } of targets) {
      tell(`reading the wire of ${name}`);
      for (const [scenario, wire] of await readWire(start, database, scenarios)) wires.set(`${name}/${scenario}`, wire);
    }
  }
  tell('');
  reportSeries(all, wires);
  reportRatios(all, RATIOS);
  reportDifferences(wires, CEILING);
  if (storage) reportStorage(storage);
} catch (error) {
  tell('');
  console.error(error);
  for (const { name, server } of targets) console.error(`${name} printed:\n${server.output}`);
  process.exitCode = 1;
} finally {
  await end();
}

async function end() {
  for (const close of opened.splice(0).reverse()) await close();
  await postgres.stop();
}

/** Another checkout, under the name of its folder. */
function elsewhere(path) {
  const checkout = resolve(path);
  return { name: basename(checkout), checkout, start: startService(checkout) };
}

/** The ceiling makes no tenants: the service does, once, in its database. */
async function seed(database, checkout, start) {
  if (start !== startCeiling) return;
  await (await startService(checkout)(database.url)).stop();
}

/** What happens just now, where somebody looks. */
function tell(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`);
}
