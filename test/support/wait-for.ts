import { performance } from 'node:perf_hooks';
import { clearTimeout, setTimeout } from 'node:timers';

/** How long to look, and what for. */
export interface WaitForOptions {
  /** Milliseconds until it gives up (10,000). */
  timeoutMs?: number;
  /** What is waited for; it stands in the error. */
  description?: string;
}

/**
 * Looks every 10 ms until `condition` gives something truthy, and returns that.
 *
 * Timers and clock are Node's own, so that it works under Jest's fake timers. A condition that hangs is bounded
 * too; one that throws ends the wait at once, because a fault in it must not look like a late event.
 *
 * @throws Error naming the description when the time is up.
 * @example
 * const row = await waitFor(() => findPayment(id), { description: 'the reconciler to settle the payment' });
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  options: WaitForOptions = {},
): Promise<Exclude<T, undefined | null | false | 0 | ''>> {
  const { timeoutMs = 10_000, description = 'the condition' } = options;
  const started = performance.now();
  const deadline = { passed: false };
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      deadline.passed = true;
      const waited = Math.round(performance.now() - started);
      reject(new Error(`waited ${waited} ms in vain for ${description}`));
    }, timeoutMs);
  });
  const look = async (): Promise<T> => {
    for (;;) {
      const value = await condition();
      if (value || deadline.passed) return value;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  try {
    return (await Promise.race([look(), late])) as Exclude<T, undefined | null | false | 0 | ''>;
  } finally {
    clearTimeout(timer);
    deadline.passed = true;
  }
}
