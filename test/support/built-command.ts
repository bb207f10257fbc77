import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs one of the commands of package.json as it is built, which `npm test` does first, in a folder without an `.env`.
 *
 * @param file below `dist/src`
 * @param environment all that it sees beside PATH
 * @param timeoutMs after which it is killed, and its code is NaN
 */
export async function runBuilt(
  file: string,
  args: readonly string[],
  environment: Record<string, string>,
  timeoutMs = 60_000,
): Promise<Outcome> {
  const cwd = await mkdtemp(join(tmpdir(), 'command-'));
  const env = { PATH: process.env.PATH, ...environment };
  const command = [join(process.cwd(), 'dist/src', file), ...args];
  try {
    return await new Promise((resolve) => {
      execFile(process.execPath, command, { env, cwd, timeout: timeoutMs }, (error, stdout, stderr) => {
        resolve({ code: error ? Number(error.code) : 0, stdout, stderr });
      });
    });
  } finally {
    await rm(cwd, { recursive: true });
  }
}
