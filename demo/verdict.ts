import type { Counts } from './target.js';

/**
 * What an accident has done to a side. `harmless`: exactly what had to be there is there. `accident`: something is there
 * that must not be, and nothing is missing. `failed`: something is missing, or it could not be played to its end; that
 * proves nothing, on neither side.
 */
export type Verdict = 'harmless' | 'accident' | 'failed';

/** A count that is not what it had to be. */
export interface Difference {
  readonly what: string;
  readonly count: number;
  readonly leaves: number;
}

export function differences(leaves: Counts, counts: Counts): Difference[] {
  return Object.entries(leaves)
    .map(([what, number]) => ({ what, count: counts[what] ?? Number.NaN, leaves: number }))
    .filter(({ count, leaves: number }) => count !== number);
}

export function judge(leaves: Counts, counts: Counts): Verdict {
  const found = differences(leaves, counts);
  if (found.length === 0) return 'harmless';
  return found.every(({ count, leaves: number }) => count > number) ? 'accident' : 'failed';
}
