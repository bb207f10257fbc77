import { mkdtemp, writeFile } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadEnvFile } from '../src/config/load-env-file.js';
import { ACCIDENTS } from './accidents/index.js';
import { Opened } from './opened.js';
import { type Options, readOptions, USAGE, UsageError } from './options.js';
import { type PlayedAccident, playToBoth } from './played-accident.js';
import { Stage } from './stage.js';
import { ending, opening, prologue, scene } from './story.js';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
const WRONG_USAGE = 2;

/** Somebody wants it to end. */
class Interruption extends Error {
  constructor(readonly status: number) {
    super('interrupted');
  }
}

const interrupted = new Promise<never>((_, reject) => {
  for (const signal of SIGNALS) {
    process.on(signal, () => reject(new Interruption(128 + constants.signals[signal])));
  }
  // What nobody has caught must not leave a Postgres behind.
  process.on('uncaughtException', reject);
  // Whoever reads has gone, as `head` does.
  process.stdout.on('error', () => reject(new Interruption(128 + constants.signals.SIGPIPE)));
});

interrupted.catch(() => undefined); // also where nobody waits for it

const tell = (text: string): void => void process.stdout.write(`${text}\n`);

/** @returns the exit status */
async function run(options: Options): Promise<number> {
  const opened = new Opened();
  let stage: Stage | undefined;
  let status: number;
  try {
    status = await Promise.race([interrupted, demonstrate(options, opened, (opening) => (stage = opening))]);
  } catch (error) {
    status = error instanceof Interruption ? error.status : 1;
    if (!(error instanceof Interruption)) console.error(isKnown(error) ? error.message : error);
  }
  await opened.close().catch((error: unknown) => {
    console.error(error);
    status ||= 1;
  });
  if (status === 1 && stage) tell(`What the processes printed: ${await keep(stage.log)}`);
  return status;
}

/** What says what is wrong and how to mend it needs no stack. */
function isKnown(error: unknown): error is Error {
  return error instanceof Error && ['StageError', 'EmbeddedPostgresError', 'SandboxError'].includes(error.name);
}

async function demonstrate(options: Options, opened: Opened, staged: (stage: Stage) => void): Promise<number> {
  tell(opening());
  const stage = await Stage.open(
    process.env.DATABASE_URL || undefined,
    new Set([options.with, options.without]),
    opened,
  );
  staged(stage);
  const sides = { with: stage.target(options.with), without: stage.target(options.without) };
  const played: PlayedAccident[] = [];
  for (const accident of options.accidents) {
    tell(prologue(ACCIDENTS.indexOf(accident) + 1, accident));
    const outcome = await playToBoth(accident, sides);
    opened.throwIfClosing(); // what fails because everything is taken away is not told
    played.push(outcome);
    tell(scene(outcome));
  }
  tell(ending(played, stage.database));
  if (options.json !== undefined)
    await writeFile(options.json, `${JSON.stringify({ accidents: played }, undefined, 2)}\n`);
  return played.every(({ isShown }) => isShown) ? 0 : 1;
}

/** @returns where it is */
async function keep(log: string): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), 'orders-demo-log-')), 'log');
  await writeFile(path, log);
  return path;
}

async function main(): Promise<number> {
  try {
    const options = readOptions(process.argv.slice(2));
    if (options.help) tell(USAGE);
    else if (options.list) for (const { name, title } of ACCIDENTS) tell(`${name.padEnd(22)}${title}`);
    else {
      loadEnvFile();
      return await run(options);
    }
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n\n${USAGE}`);
    return WRONG_USAGE;
  }
}

process.exit(await main());
