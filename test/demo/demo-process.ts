import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmod, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { PlayedAccident } from '../../demo/played-accident.js';

const run = promisify(execFile);
const COMMAND = join(process.cwd(), 'dist/demo/demo.command.js');

/** Compiles the demonstration, which `npm run build` leaves out. */
export async function buildDemo(): Promise<void> {
  await run(process.execPath, ['demo/build.js']);
}

/** `npm run demo` without the build, in a temporary folder of its own. */
export class DemoProcess {
  printed = '';
  complained = '';
  /** Its exit code, or the signal that has ended it. */
  readonly ended: Promise<number | string | null>;

  private constructor(
    private readonly child: ChildProcess,
    /** Where it may put things. */
    readonly folder: string,
  ) {
    child.stdout!.setEncoding('utf8').on('data', (text: string) => (this.printed += text));
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (this.complained += text));
    this.ended = new Promise((resolve) => child.once('close', (code, signal) => resolve(signal ?? code)));
  }

  /** @param environment without DATABASE_URL it runs on an embedded Postgres */
  static async start(args: readonly string[], environment: Record<string, string> = {}): Promise<DemoProcess> {
    const folder = await mkdtemp(join(tmpdir(), 'demo-test-'));
    await chmod(folder, 0o711); // as root, Postgres runs as somebody else
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: folder };
    const child = spawn(process.execPath, [COMMAND, ...args], {
      cwd: folder, // without an `.env`
      env: { ...env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new DemoProcess(child, folder);
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  /** The processes that it has started, its Postgres among them. */
  async processes(): Promise<number[]> {
    const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=']);
    const children = stdout
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .filter(([, parent]) => parent === this.child.pid)
      .map(([pid]) => pid!);
    const [stage = ''] = await this.left();
    const postmaster = await readFile(join(this.folder, stage, 'postgres/data/postmaster.pid'), 'utf8').catch(() => '');
    return [...new Set([...children, ...(postmaster ? [Number.parseInt(postmaster, 10)] : [])])];
  }

  /** What lies in its temporary folder. */
  left(): Promise<string[]> {
    return readdir(this.folder);
  }

  /** What `--json result.json` has written. */
  async result(): Promise<PlayedAccident[]> {
    const text = await readFile(join(this.folder, 'result.json'), 'utf8');
    return (JSON.parse(text) as { accidents: PlayedAccident[] }).accidents;
  }

  async remove(): Promise<void> {
    this.child.kill('SIGTERM');
    await this.ended;
    await rm(this.folder, { recursive: true, force: true });
  }
}

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
