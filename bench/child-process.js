import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { processorTime } from './machine.js';

const STARTED_WITHIN = 30_000;
const STOPPED_WITHIN = 10_000;

/** One server in a process of its own. */
export class ServerProcess {
  /** Such as `http://127.0.0.1:41234`. */
  url = '';
  #child;
  #output = '';

  /**
   * Starts it and waits until it prints the address it listens on.
   *
   * @param {string} script
   * @param {Record<string, string>} env added to the environment
   * @param {string[]} [nodeOptions]
   */
  static async start(script, env, nodeOptions = []) {
    const server = new ServerProcess();
    server.#child = spawn(process.execPath, [...nodeOptions, script], {
      env: { ...process.env, PORT: '0', HOST: '127.0.0.1', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [server.#child.stdout, server.#child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => (server.#output += text));
    }
    const deadline = performance.now() + STARTED_WITHIN;
    while (server.url === '') {
      if (server.#ended || performance.now() > deadline) {
        await server.stop();
        throw new Error(`${script} did not start:\n${server.#output}`);
      }
      await sleep(20);
      const [, port] = /listening on http:\/\/[^\s:]+:(\d+)\s/i.exec(server.#output) ?? [];
      if (port) server.url = `http://127.0.0.1:${port}`;
    }
    return server;
  }

  /** Sends a signal and waits until it says something about it. */
  async toldOn(signal, text) {
    const from = this.#output.length;
    this.#child.kill(signal);
    while (!this.#output.slice(from).includes(text)) {
      if (this.#ended) throw new Error(`It has ended:\n${this.#output}`);
      await sleep(20);
    }
  }

  /** Everything it printed, for when something went wrong. */
  get output() {
    return this.#output;
  }

  /** Microseconds of processor time it has used; NaN where the system does not tell. */
  async processorTime() {
    return processorTime(this.#child.pid);
  }

  async stop() {
    if (this.#ended) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOPPED_WITHIN);
    await ended;
    clearTimeout(timer);
  }

  get #ended() {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}
