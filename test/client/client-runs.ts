import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('client-process.js', import.meta.url));

export interface Work {
  readonly reference: string;
  readonly orderId?: string;
  readonly body: unknown;
}

/** What the client wrote down of an intent. */
export interface Noted {
  readonly reference: string;
  readonly key: string;
  readonly status: 'succeeded' | 'refused';
  readonly id?: string;
  readonly code?: string;
}

/** A client in a process of its own, which is killed and started again until its work is done. */
export class ClientRuns {
  starts = 0;
  kills = 0;
  /** To be called for each request that arrives. */
  arrived: () => void = () => undefined;
  private child: ChildProcess | undefined;

  private constructor(
    private readonly folder: string,
    private readonly environment: Record<string, string>,
  ) {}

  static async of(operation: 'create' | 'pay', baseUrl: string, work: Work[], options: object): Promise<ClientRuns> {
    const folder = await mkdtemp(join(tmpdir(), 'orders-client-'));
    const path = join(folder, 'work.json');
    writeFileSync(path, JSON.stringify(work));
    const OPTIONS = JSON.stringify(options);
    return new ClientRuns(folder, { BASE_URL: baseUrl, FOLDER: folder, OPERATION: operation, WORK: path, OPTIONS });
  }

  /**
   * Runs it to its end.
   *
   * @param killAfter for each kill, after how many of its requests arrived
   * @throws Error when it ends in any other way than killed, done, or with something to go on with
   */
  async toTheEnd(killAfter: number[]): Promise<void> {
    for (;;) {
      this.starts += 1;
      const child = (this.child = spawn(process.execPath, [PROGRAM], {
        env: { PATH: process.env.PATH, ...this.environment },
        stdio: ['ignore', 'inherit', 'pipe'],
      }));
      let printed = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => (printed += text));
      const ended = once(child, 'close') as Promise<[number | null, string | null]>;
      let left = killAfter.shift() ?? Infinity;
      this.arrived = () => void ((left -= 1) === 0 && child.kill('SIGKILL'));
      const [code, signal] = await ended;
      if (code === 0) return;
      if (signal === 'SIGKILL') this.kills += 1;
      else if (code !== 75) throw new Error(`The client ended with ${code ?? signal}: ${printed}`);
    }
  }

  /** Everything noted, once for each intent: what a kill let it note twice is the same twice. */
  get noted(): Noted[] {
    const path = join(this.folder, 'outcomes');
    const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
    return [...new Set(lines.filter((line) => line.endsWith('}')))].map((line) => JSON.parse(line) as Noted);
  }

  /** The intents that are still stored. */
  async stored(): Promise<string[]> {
    return (await readdir(join(this.folder, 'intents'))).filter((file) => file.endsWith('.intent'));
  }

  async remove(): Promise<void> {
    this.child?.kill('SIGKILL');
    await rm(this.folder, { recursive: true, force: true });
  }
}
