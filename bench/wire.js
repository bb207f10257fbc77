import { setTimeout as sleep } from 'node:timers/promises';
import { sendOne } from './load.js';
import { SCENARIOS } from './scenarios.js';
import { SlowWire } from './slow-wire.js';

const DELAY = 60;
const SAMPLES = 5;

/**
 * @typedef {{ statements: string[], waits: number }} Wire what one request costs at the database
 */

/**
 * Sends single requests over a wire on which every reply takes {@link DELAY} longer, and looks what they sent and how
 * often they waited. The login is known by then.
 *
 * @param {(databaseUrl: string) => Promise<import('./child-process.js').ServerProcess>} start
 * @param {import('./database.js').Database} database
 * @param {string[]} names of scenarios
 * @returns {Promise<Map<string, Wire>>}
 */
export async function readWire(start, database, names) {
  const wire = await SlowWire.open(database.url, DELAY);
  const server = await start(wire.url);
  const result = new Map();
  try {
    for (const name of names) {
      const course = await SCENARIOS[name]({ url: server.url, database }, { stored: 2 });
      const samples = [];
      for (let n = -2; n < SAMPLES; n++) {
        const sample = await sampleOf(server.url, wire, course);
        if (n >= 0) samples.push(sample);
      }
      // The fewest: in the others a background job or a login has had its turn, or the machine was slow.
      const waits = Math.floor(Math.min(...samples.map(({ time }) => time)) / DELAY);
      const [{ statements }] = samples.sort((a, b) => a.statements.length - b.statements.length);
      result.set(name, { statements, waits });
    }
  } finally {
    await server.stop();
    await wire.close();
  }
  return result;
}

async function sampleOf(url, wire, course) {
  wire.statements.length = 0;
  const sent = course.next();
  const start = performance.now();
  const received = await sendOne(url, sent);
  const time = performance.now() - start;
  const fault = course.check(sent, received);
  if (fault) throw new Error(`An answer is not as expected: ${fault}`);
  await sleep(2 * DELAY); // what nobody waits for, such as a ROLLBACK, counts as well
  return { statements: [...wire.statements], time };
}
