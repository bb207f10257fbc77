import { execFile } from 'node:child_process';
import { waitFor } from './wait-for.js';

/** Waits until a process stands still after SIGSTOP, which is sent without an answer. */
export async function untilStopped(pid: number): Promise<void> {
  await waitFor(async () => (await stateOf(pid)).startsWith('T'), { description: `process ${pid} to stop` });
}

function stateOf(pid: number): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile('ps', ['-o', 'state=', '-p', String(pid)], (error, stdout) => {
      if (error) reject(new Error(`process ${pid} is not there`, { cause: error }));
      else resolve(stdout.trim());
    });
  });
}
