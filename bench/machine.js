import { readdir, readFile } from 'node:fs/promises';
import { cpus } from 'node:os';

/** Ticks per second of the clocks in /proc: 100 on every Linux that Node runs on. */
const TICKS = 100;

/**
 * Watches how much of the machine goes to programs that are no part of the bench.
 *
 * @example
 * const watch = await Watch.start();
 * await work();
 * const { others } = await watch.stop(); // 0.25: a quarter of all processors
 */
export class Watch {
  #start;
  #before;

  static async start() {
    const watch = new Watch();
    watch.#start = performance.now();
    watch.#before = await used();
    return watch;
  }

  /**
   * @returns {Promise<{ ours: number, others: number }>} seconds of processor time that this process took with all that
   *   it started, and the part of all processors that others took; NaN where the system does not tell
   */
  async stop() {
    const seconds = (performance.now() - this.#start) / 1_000;
    const now = await used();
    const ours = now.ours - this.#before.ours;
    const others = now.all - this.#before.all - ours;
    return { ours, others: Math.max(0, others / (seconds * cpus().length)) };
  }
}

/** Microseconds of processor time that a process has used; NaN where the system does not tell. */
export async function processorTime(pid) {
  const stat = await statOf(pid);
  return stat ? stat.seconds * 1e6 : Number.NaN;
}

/** Seconds of processor time since the machine started: of everything, and of this process with all that it started. */
async function used() {
  try {
    const [, user, nice, system, , , irq, softirq] = (await readFile('/proc/stat', 'utf8')).split(/\s+/).map(Number);
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
    const stats = new Map();
    for (const stat of await Promise.all(pids.map(statOf))) if (stat) stats.set(stat.pid, stat);
    const isOurs = ({ pid, parent }) => pid === process.pid || (stats.has(parent) && isOurs(stats.get(parent)));
    const ours = [...stats.values()].filter(isOurs).reduce((sum, { seconds }) => sum + seconds, 0);
    return { all: (user + nice + system + irq + softirq) / TICKS, ours };
  } catch {
    return { all: Number.NaN, ours: Number.NaN };
  }
}

async function statOf(pid) {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
    const [, parent, , , , , , , , , , user, system] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { pid: Number(pid), parent: Number(parent), seconds: (Number(user) + Number(system)) / TICKS };
  } catch {
    return undefined; // it has ended meanwhile
  }
}
