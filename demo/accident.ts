import type { OrdersClient } from '../src/client/index.js';
import type { Counts, Target } from './target.js';
import type { Witness } from './witness.js';

/** Where an accident plays. */
export interface Scene {
  readonly target: Target;
  /** Whose requests are told in the story. */
  readonly client: OrdersClient;
  /** The same, for what comes before. */
  readonly before: OrdersClient;
  /** Notes what is sent without a client. */
  readonly witness: Witness;
  /** Tells what else was to be seen. */
  readonly note: (text: string) => void;
}

/** Something that happens to every service one day, caused in the same way to whoever is the target. */
export interface Accident {
  readonly name: string;
  readonly title: string;
  /** What happens, in a sentence or two. */
  readonly story: string;
  /** What must be there afterwards, whatever happened on the way: no more, and no less. */
  readonly leaves: Counts;
  /** @returns what only the accident itself can count */
  play(scene: Scene): Promise<Counts | void>;
}
