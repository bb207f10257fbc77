import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { until } from './until.js';

const INHERITED = /^(PATH|HOME|LANG|LC_.*|TZ|TMPDIR|SystemRoot)$/i;

/** Runs in the child: when the pipe on its stdin closes, the demonstration is gone, however it ended, and so is the child. */
const END_WITH_PARENT = `data:text/javascript,${encodeURIComponent(
  "process.stdin.on('close', () => process.kill(process.pid, 'SIGKILL')).resume().unref();",
)}`;

export interface Launch {
  /** The file that Node runs. */
  readonly script: string;
  /** All that is set; of the demonstration's own environment only the likes of PATH are passed on. */
  readonly env: Readonly<Record<string, string>>;
  /** Where it runs: a folder without an `.env` that would be read. */
  readonly cwd: string;
  /** Gets everything that it prints. */
  readonly log: (text: string) => void;
}

/** One server in a process of its own, which can be killed. */
export class ServerProcess {
  private constructor(
    private readonly child: ChildProcess,
    /** Such as `http://127.0.0.1:41234`. */
    readonly url: string,
  ) {}

  /** Starts it and waits until it prints the address that it listens on. */
  static async start({ script, env, cwd, log }: Launch): Promise<ServerProcess> {
    const inherited = Object.entries(process.env).filter(([name]) => INHERITED.test(name));
    const child = spawn(process.execPath, ['--import', END_WITH_PARENT, '--enable-source-maps', script], {
      cwd,
      env: { ...Object.fromEntries(inherited), PORT: '0', HOST: '127.0.0.1', ...env },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let printed = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        log(text);
      });
    }
    child.stdin.on('error', () => undefined);
    child.once('error', ({ message }) => log(`${message}\n`));
    try {
      const port = await until(`${script} listens`, () => {
        if (hasEnded(child)) throw new Error(`${script} ended before it listened:\n${printed}`);
        return /listening on http:\/\/[^\s:]+:(\d+)\s/i.exec(printed)?.[1];
      });
      return new ServerProcess(child, `http://127.0.0.1:${port}`);
    } catch (error) {
      await end(child);
      throw error;
    }
  }

  /** SIGKILL: it has no time for anything. Resolves when it is gone. */
  async kill(): Promise<void> {
    await end(this.child);
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

function hasEnded({ pid, exitCode, signalCode }: ChildProcess): boolean {
  return pid === undefined || exitCode !== null || signalCode !== null;
}
