import type { Accident } from './accident.js';
import type { SideName } from './side.js';
import type { Counts, Target } from './target.js';
import { judge, type Verdict } from './verdict.js';
import { type Sighting, Witness } from './witness.js';

/** How an accident went for one side. */
export interface Outcome {
  readonly side: SideName;
  readonly verdict: Verdict;
  /** What was added by the accident, of what it counts. */
  readonly counts: Counts;
  readonly seen: readonly Sighting[];
  readonly notes: readonly string[];
  /** Why it could not be played to its end. */
  readonly error?: string;
}

/** How it went for both, and whether that shows what it is to show. */
export interface PlayedAccident {
  readonly name: string;
  readonly leaves: Counts;
  readonly with: Outcome;
  readonly without: Outcome;
  readonly isShown: boolean;
}

/** Plays an accident to one side and counts what it has left behind there. */
export async function play(accident: Accident, target: Target): Promise<Outcome> {
  const witness = new Witness();
  const notes: string[] = [];
  const scene = {
    target,
    witness,
    client: target.client(witness),
    before: target.client(),
    note: (text: string) => void notes.push(text),
  };
  const told = { side: target.name, seen: witness.seen, notes };
  try {
    await target.settled();
    await target.forgetMessages();
    const before = await target.counts();
    const counted = await accident.play(scene);
    await target.settled();
    const after = await target.counts();
    const counts = Object.fromEntries(
      Object.keys(accident.leaves).map((what) => [what, counted?.[what] ?? after[what]! - before[what]!]),
    );
    return { ...told, verdict: judge(accident.leaves, counts), counts };
  } catch (error) {
    return { ...told, verdict: 'failed', counts: {}, error: (error as Error).message };
  }
}

/** Plays it to both sides, one after the other. */
export async function playToBoth(
  accident: Accident,
  sides: { with: Target; without: Target },
): Promise<PlayedAccident> {
  const outcomes = { with: await play(accident, sides.with), without: await play(accident, sides.without) };
  const isShown = outcomes.with.verdict === 'harmless' && outcomes.without.verdict === 'accident';
  return { name: accident.name, leaves: accident.leaves, ...outcomes, isShown };
}
