import { setTimeout as sleep } from 'node:timers/promises';

const LOOK_EVERY_MS = 20;
const PATIENCE_MS = 60_000;

/**
 * Looks until the condition gives something other than undefined and false, and returns that.
 *
 * @param what is waited for, for the error when it does not come
 */
export async function until<T>(
  what: string,
  condition: () => Promise<T | undefined | false> | T | undefined | false,
): Promise<T> {
  for (const deadline = performance.now() + PATIENCE_MS; ; await sleep(LOOK_EVERY_MS)) {
    const found = await condition();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > deadline) throw new Error(`Waited in vain: ${what}`);
  }
}
