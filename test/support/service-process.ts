import { spawn, type ChildProcess } from 'node:child_process';
import { request as httpRequest, type Agent, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import type { Socket } from 'node:net';
import { resolve as resolvePath } from 'node:path';
import { clearTimeout, setTimeout } from 'node:timers';
import { fileURLToPath } from 'node:url';
import { waitFor } from './wait-for.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const INHERITED = /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|TMP|TEMP|SystemRoot|NODE_V8_COVERAGE)$/i;
const STARTED_WITHIN_MS = 30_000;

/**
 * Runs in the child before the service: when the pipe on its stdin closes, the test process is gone, however it ended,
 * and the child goes too. An 'exit' handler in the test would not do: Jest gives tests a copy of `process` that does not
 * see it, and SIGKILL runs none.
 */
const END_WITH_PARENT = `data:text/javascript,${encodeURIComponent(
  "process.stdin.on('close', () => process.kill(process.pid, 'SIGKILL')).resume().unref();",
)}`;

/** What to send; a body that is neither string nor bytes goes as JSON. */
export interface ServiceRequest {
  /** An array sends the header in several lines. */
  headers?: OutgoingHttpHeaders;
  body?: unknown;
  /** A keep-alive agent; by default each request has a socket of its own. */
  agent?: Agent;
  /** Gives the request up and destroys its socket: a client that goes away. */
  signal?: AbortSignal;
}

/** A complete answer. */
export interface ServiceResponse {
  status: number;
  /** Names in lower case, several lines joined by a comma. */
  headers: Record<string, string>;
  body: Buffer;
  text: string;
  /** The body parsed, at first access. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- tests look into any answer's members
  readonly json: any;
}

/** How a process ended. */
export interface ServiceExit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** How to start. */
export interface ServiceOptions {
  /** The file to run, relative to the repository (`dist/src/main.js`). */
  entry?: string;
  /** What answers 200 once it is ready (`/health/ready`). */
  readyPath?: string;
  /** Milliseconds until it must be ready (30,000). */
  timeoutMs?: number;
}

/**
 * The built service in a process of its own, for tests that crash it, stop it, or run several of it.
 *
 * @example
 * const service = await ServiceProcess.start({ DATABASE_URL: proxy.url, SEED_DEMO_TENANTS: 'true' });
 * const response = await service.request('POST', '/v1/orders', { headers, body: order });
 * await service.kill();
 */
export class ServiceProcess {
  private static readonly running = new Set<ServiceProcess>();

  /** Resolves when the process has ended and its output is complete. */
  readonly exited: Promise<ServiceExit>;
  private address = '';
  private captured = '';
  private stdout = '';
  private gone: ServiceExit | undefined;

  private constructor(private readonly child: ChildProcess) {
    ServiceProcess.running.add(this);
    // A service that a failed test left running must not keep Jest from ending, which ends the service.
    child.unref();
    for (const pipe of [child.stdin, child.stdout, child.stderr]) (pipe as Socket | null)?.unref();
    child.stdin?.on('error', () => undefined);
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.captured += text;
        if (stream === child.stdout) this.stdout += text;
      });
    }
    this.exited = new Promise((resolve) => {
      const ended = (code: number | null, signal: NodeJS.Signals | null): void => {
        ServiceProcess.running.delete(this);
        this.gone ??= { code, signal };
        resolve(this.gone);
      };
      child.once('error', (error) => {
        this.captured += `${error.message}\n`;
        ended(null, null);
      });
      child.once('close', ended);
      // A grandchild that keeps the pipes must not keep us.
      child.once('exit', (code, signal) => setTimeout(() => ended(code, signal), 1_000).unref());
    });
  }

  /**
   * Starts the service and waits until it has printed its address (a line with "listening" and a URL) and
   * `GET /health/ready`, or what is said instead, answers 200.
   *
   * @param env its whole environment, apart from the likes of PATH; PORT is 0 and HOST 127.0.0.1 unless given.
   * @throws Error with everything it printed, when it ends or is not ready in time.
   */
  static async start(env: Record<string, string>, options: ServiceOptions = {}): Promise<ServiceProcess> {
    const { entry = 'dist/src/main.js', readyPath = '/health/ready', timeoutMs = STARTED_WITHIN_MS } = options;
    const args = ['--import', END_WITH_PARENT, '--enable-source-maps', resolvePath(ROOT, entry)];
    const service = new ServiceProcess(
      spawn(process.execPath, args, { cwd: ROOT, env: environment(env), stdio: ['pipe', 'pipe', 'pipe'] }),
    );
    try {
      await waitFor(() => service.isReady(readyPath), { timeoutMs, description: 'the service to be ready' });
      return service;
    } catch (error) {
      await service.kill();
      const { code, signal } = await service.exited;
      const reason = (error as { message?: string }).message ?? String(error);
      throw new Error(`${reason} (exit code ${code}, signal ${signal}); it printed:\n${service.output}`, {
        cause: error,
      });
    }
  }

  /** Kills every service that still runs: for `afterAll`, when a test failed half-way. */
  static async killAll(): Promise<void> {
    await Promise.all([...ServiceProcess.running].map((service) => service.kill()));
  }

  /** Such as `http://127.0.0.1:41234`, without a slash at the end. */
  get baseUrl(): string {
    return this.address;
  }

  get pid(): number {
    return this.child.pid ?? -1;
  }

  /** Everything printed so far, stdout and stderr as they came. */
  get output(): string {
    return this.captured;
  }

  /**
   * Sends one request, once: nothing is ever repeated and no redirect followed.
   *
   * @throws the network's error (`code` ECONNREFUSED, ECONNRESET ...) when no complete answer comes.
   */
  async request(method: string, path: string, options: ServiceRequest = {}): Promise<ServiceResponse> {
    const { agent, signal } = options;
    const headers: OutgoingHttpHeaders = { ...options.headers };
    const body = bytesOf(options.body, headers);
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = httpRequest(new URL(path, this.address), {
        method,
        headers,
        agent: agent ?? false,
        signal,
      });
      sent.once('response', resolve);
      sent.on('error', reject);
      sent.end(body);
    });
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer); // throws ECONNRESET when cut short
    const received = Buffer.concat(chunks);
    const text = received.toString('utf8');
    return {
      status: response.statusCode ?? 0,
      headers: Object.fromEntries(
        Object.entries(response.headersDistinct).map(([name, values]) => [name, values?.join(', ') ?? '']),
      ),
      body: received,
      text,
      get json() {
        return JSON.parse(text) as unknown;
      },
    };
  }

  /** Sends a signal and does not wait: `SIGSTOP` and `SIGCONT` make an owner that stalls past its lease. */
  signal(name: NodeJS.Signals): void {
    if (!this.gone) this.child.kill(name);
  }

  /** Sends a signal that ends it, and waits until it has ended. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.signal(signal);
    await this.exited;
  }

  /**
   * Asks it to shut down (SIGTERM), and kills it when that takes longer than `timeoutMs` (10,000).
   *
   * @returns its exit code; null when a signal ended it.
   */
  async stop(timeoutMs = 10_000): Promise<number | null> {
    this.signal('SIGTERM');
    const timer = setTimeout(() => this.signal('SIGKILL'), timeoutMs);
    const { code } = await this.exited;
    clearTimeout(timer);
    return code;
  }

  private async isReady(path: string): Promise<boolean> {
    if (this.gone) throw new Error('the service ended before it was ready');
    const lines = this.stdout.split('\n').slice(0, -1);
    const url = lines.map((line) => /listening/i.test(line) && /http:\/\/([^\s/:]+|\[[^\]]+\]):\d+/.exec(line)?.[0]);
    this.address = url.find((found) => typeof found === 'string') || '';
    if (!this.address) return false;
    this.address = this.address.replace(/\/\/(0\.0\.0\.0|localhost):/, '//127.0.0.1:');
    try {
      return (await this.request('GET', path, { signal: AbortSignal.timeout(2_000) })).status === 200;
    } catch {
      return false; // not there yet, or gone: the next look tells
    }
  }
}

function environment(env: Record<string, string>): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => INHERITED.test(name));
  // Jest needs the flag, a child must run without it, as in production.
  const nodeOptions = (env.NODE_OPTIONS ?? process.env.NODE_OPTIONS ?? '')
    .replace('--experimental-vm-modules', '')
    .trim();
  return {
    ...Object.fromEntries(inherited),
    PORT: '0',
    HOST: '127.0.0.1',
    // Nobody listens there: a suite that moves money brings its providers.
    STRIPE_API_BASE: 'http://127.0.0.1:1',
    BANK_API_BASE: 'http://127.0.0.1:1',
    ...env,
    NODE_OPTIONS: nodeOptions || undefined,
  };
}

function bytesOf(body: unknown, headers: OutgoingHttpHeaders): string | Uint8Array | undefined {
  if (body === undefined || typeof body === 'string' || ArrayBuffer.isView(body)) return body as Uint8Array | undefined;
  if (!Object.keys(headers).some((name) => name.toLowerCase() === 'content-type')) {
    headers['content-type'] = 'application/json';
  }
  return JSON.stringify(body);
}
