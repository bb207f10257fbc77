import { randomInt } from 'node:crypto';

/**
 * Runs a test that draws numbers in [0, 1). When it fails it says the seed; `SEED=<seed>` in the environment draws the
 * same ones again (how the requests interleave remains the machine's decision).
 */
export async function seeded(run: (random: () => number) => Promise<void>): Promise<void> {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31));
  try {
    await run(mulberry32(seed));
  } catch (error) {
    console.error(`SEED=${seed}`);
    throw error;
  }
}

function mulberry32(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), seed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
