import { execFile, spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { applyDiff, type Guide, Printed, ROOT, type Step } from './guide.js';

const run = promisify(execFile);

const PROJECT = [
  ...['src', 'migrations', 'test', 'package.json', 'tsconfig.json', 'tsconfig.build.json', '.swcrc'],
  ...['jest.config.js', 'eslint.config.js', 'openapi.json'],
];

const PACKAGES = join(ROOT, 'node_modules');

/** Without it the commands of a page cannot be typed: everything else works with Node alone. */
export const hasCurl = spawnSync('curl', ['--version']).status === 0;

/** Where the pages say that the service is. */
const SHOWN_ADDRESS = 'http://localhost:3000';

/** A line between what two steps print. */
const NEXT = '--- next step ---';

/** A folder in which somebody follows a page of `docs/`. */
export class Checkout {
  private constructor(readonly folder: string) {}

  /** With nothing in it. */
  static async empty(): Promise<Checkout> {
    return new Checkout(await mkdtemp(join(tmpdir(), 'orders-guide-')));
  }

  /** With the sources and the packages of the project. */
  static async ofProject(): Promise<Checkout> {
    const checkout = await Checkout.empty();
    await symlink(PACKAGES, checkout.path('node_modules'));
    for (const name of PROJECT) await cp(join(ROOT, name), checkout.path(name), { recursive: true });
    return checkout;
  }

  /** With those of the project's packages: no other is found from here. It stands for `npm install`. */
  async install(names: readonly string[]): Promise<void> {
    for (const name of [...names, '.bin']) {
      const path = this.path(`node_modules/${name}`);
      await mkdir(dirname(path), { recursive: true });
      await symlink(join(PACKAGES, name), path);
    }
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  read(name: string): Promise<string> {
    return readFile(this.path(name), 'utf8');
  }

  /** Writes and changes the page's files. */
  async follow(guide: Guide): Promise<void> {
    for (const { kind, path, text } of guide.edits) {
      await mkdir(dirname(this.path(path)), { recursive: true });
      try {
        await writeFile(this.path(path), kind === 'diff' ? applyDiff(await this.read(path), text) : text);
      } catch (cause) {
        throw new Error(`${path} cannot be changed as the page says. ${(cause as Error).message}`, { cause });
      }
    }
  }

  /**
   * Checks the types of what there is now and builds it, at the price of one run of the compiler: it stands for
   * `npm run typecheck` and for every `npm run build` from now on.
   *
   * @param also what is checked beside the service
   */
  async build(...also: string[]): Promise<void> {
    const config = {
      extends: './tsconfig.json',
      compilerOptions: { noEmit: false, sourceMap: false },
      include: ['src', 'migrations', ...also],
    };
    await writeFile(this.path('tsconfig.guide.json'), JSON.stringify(config));
    await this.sh('node node_modules/typescript/bin/tsc -p tsconfig.guide.json');
    await this.sh('npm pkg set scripts.build="node --version"');
  }

  /** Types commands. @returns what they print to their standard output */
  async sh(script: string, environment: Record<string, string> = {}): Promise<string> {
    const { PATH, HOME, TMPDIR } = process.env;
    const env = { PATH, HOME, TMPDIR, npm_config_update_notifier: 'false', ...environment };
    try {
      return (await run('sh', ['-ec', script], { cwd: this.folder, env, maxBuffer: 10_000_000 })).stdout;
    } catch (error) {
      const { stdout, stderr } = error as { stdout: string; stderr: string };
      throw new Error(`${script}\nended with:\n${stdout}\n${stderr}`, { cause: error });
    }
  }

  /**
   * Types the steps of a page, one after the other in one shell.
   *
   * @param baseUrl where the service is in place of the page's address
   * @returns what the page says is printed and is not
   */
  async walk(steps: readonly Step[], baseUrl: string): Promise<string[]> {
    const address = baseUrl.replace('127.0.0.1', 'localhost');
    const here = (text: string) => text.replaceAll(SHOWN_ADDRESS, address);
    const output = await this.sh(steps.map(({ script }) => here(script)).join(`\necho; echo '${NEXT}'\n`));
    const outputs = output.split(`${NEXT}\n`);
    const printed = new Printed();
    return steps.flatMap((step, index) => {
      const missing = printed.missing(step.printed.map(here), outputs[index] ?? '');
      return missing === undefined ? [] : [`${missing}\nis not what is printed:\n${outputs[index]}`];
    });
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}
