import { setTimeout as sleep } from 'node:timers/promises';
import { send } from './load.js';
import { Watch } from './machine.js';
import { SCENARIOS } from './scenarios.js';

/**
 * What a series runs before its first round: seconds, and requests, for the service's processor time per request falls
 * for about so many until everything is compiled. On a slow machine that takes longer than the seconds.
 */
const WARM_UP = 4;
const WARM_UP_ANSWERS = 6_000;
const WARM_UP_STEP = 500;
/** The part of the machine from which on other programs spoil a round. */
const NOISE = 0.1;

/**
 * @typedef {{ name: string, server: import('./child-process.js').ServerProcess, database: import('./database.js').Database }} Target
 * @typedef {{ rate: number, p50: number, p99: number, processor: number, others: number }} Result requests per second,
 *   milliseconds, microseconds of the server's processor per request, and the part of the machine that other programs took
 */

/** One scenario on one target, round by round. */
export class Series {
  /** @type {Result[]} */
  results = [];
  #course;
  #rate = 0;

  /**
   * @param {string} scenario
   * @param {Target} target
   */
  constructor(scenario, target) {
    this.scenario = scenario;
    this.target = target;
  }

  get name() {
    return `${this.target.name}/${this.scenario}`;
  }

  /** @param {number} connections */
  async warmUp(connections) {
    const { server, database } = this.target;
    this.#course = await SCENARIOS[this.scenario]({ url: server.url, database });
    const end = performance.now() + WARM_UP * 1_000;
    for (let sent = 0; sent < WARM_UP_ANSWERS || performance.now() < end;) {
      const { answers, seconds } = await send(server.url, this.#course, { amount: WARM_UP_STEP, connections });
      this.#rate = answers / seconds;
      sent += answers;
    }
  }

  /**
   * @param {{ seconds: number, connections: number }} options
   * @returns {Promise<Result>}
   */
  async round({ seconds, connections }) {
    const { server } = this.target;
    const amount = Math.ceil(this.#rate * seconds);
    const before = await server.processorTime();
    const watch = await Watch.start();
    const round = await send(server.url, this.#course, { amount, connections });
    const { ours, others } = await watch.stop();
    const processor = (await server.processorTime()) - before;
    this.#rate = round.answers / round.seconds;
    return {
      rate: this.#rate,
      p50: quantile(round.latencies, 0.5),
      p99: quantile(round.latencies, 0.99),
      processor: processor / round.answers,
      machine: (ours * 1e6) / round.answers,
      others,
    };
  }

  /** @throws Error when the rows in the database are not those that the answers promised */
  async prove() {
    const fault = await this.#course.prove();
    if (fault) throw new Error(`${this.name}: ${fault}`);
  }

  notes() {
    return this.#course.notes?.() ?? '';
  }
}

/**
 * Lets every series have its turn in each round, there and back, so that neither noise nor growing tables favour one.
 * A round that other programs spoil is measured again, and waited for, as long as `patience` lasts.
 *
 * @param {Series[]} all
 * @param {{ seconds: number, rounds: number, connections: number, patience: number }} options
 * @param {(text: string) => void} tell
 */
export async function measure(all, options, tell) {
  for (const series of all) {
    tell(`warming up ${series.name}`);
    await series.warmUp(options.connections);
  }
  const giveUp = performance.now() + 1_000 * (options.patience + options.seconds * options.rounds * all.length);
  for (let round = 1; round <= options.rounds; round++) {
    for (const series of round % 2 ? all : [...all].reverse()) {
      tell(`round ${round} of ${options.rounds}: ${series.name}`);
      await calm(giveUp);
      let result = await series.round(options);
      while (result.others > NOISE && performance.now() < giveUp) {
        await calm(giveUp);
        result = await series.round(options);
      }
      series.results.push(result);
    }
  }
  tell('counting rows');
  for (const series of all) await series.prove();
}

/** Waits until other programs are quiet. */
async function calm(giveUp) {
  for (;;) {
    const watch = await Watch.start();
    await sleep(100);
    const { others } = await watch.stop();
    if (!(others > NOISE) || performance.now() > giveUp) return;
    await sleep(500);
  }
}

/** @param {number[]} sorted */
export function quantile(sorted, part) {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

/** @param {number[]} values */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
