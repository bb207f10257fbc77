import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  BANK_REFUND,
  BANK_TRANSFER,
  CARD_PAYMENT,
  CARD_REFUND,
  type Course,
  RESUMED_BANK_TRANSFER,
  RESUMED_CARD_PAYMENT,
} from '../payments/struck-courses.js';
import { type Fate, StruckRun } from '../payments/struck-run.js';

const FULL = process.env.TEST_FULL === '1';
/** Without TEST_FULL: every so many boundaries, and always where the answer to a commit or to a call is lost. */
const SAMPLE = 10;

/** The reconciliation of the process that was not struck: it looks often, and gives up as soon as a lease has lapsed. */
const RECONCILING = { RECONCILIATION_INTERVAL: '200ms', RECONCILIATION_GIVE_UP: '2s' };

interface Case {
  readonly course: Course;
  readonly settledBy: 'retries' | 'retries and the reconciliation' | 'the reconciliation alone';
  /**
   * Whether processes are killed at every boundary under TEST_FULL, and at a sample of them without. Each one takes a
   * start, so elsewhere it is a sample under TEST_FULL, and none without.
   */
  readonly killed?: boolean;
}

const CASES: Case[] = [
  { course: CARD_PAYMENT, settledBy: 'retries', killed: true },
  { course: CARD_REFUND, settledBy: 'retries', killed: true },
  { course: RESUMED_CARD_PAYMENT, settledBy: 'retries' },
  { course: BANK_TRANSFER, settledBy: 'retries and the reconciliation', killed: true },
  { course: BANK_REFUND, settledBy: 'retries and the reconciliation' },
  { course: RESUMED_BANK_TRANSFER, settledBy: 'retries and the reconciliation' },
  { course: CARD_PAYMENT, settledBy: 'the reconciliation alone' },
];

/**
 * A course is everything that the service says to Postgres and to the provider, and hears of them, for one request. It is
 * struck once at each message: just before a statement or a call is delivered, or just before its result is. Then the same
 * request is sent to another process until it has an answer that stands.
 */
describe.each(CASES)('M14, M15, M21, M37: $course.name, struck at every boundary, settled by $settledBy', (given) => {
  const { course, settledBy } = given;
  let run: StruckRun;
  beforeAll(async () => {
    run = await StruckRun.start(course, {
      ...(settledBy !== 'retries' && { reconciling: RECONCILING }),
      waitsForReconciliation: settledBy === 'the reconciliation alone',
    });
  }, 60_000);
  afterAll(() => run.stop());

  const fates: [string, Fate][] = [['its connection is cut', 'cut']];
  if (FULL || given.killed) fates.push(['its process is killed', 'killed']);

  it.each(fates)(
    'moves the money once, tells of it once and answers the same, where %s',
    async (_, fate) => {
      const isEach = FULL && (fate === 'cut' || given.killed === true);
      const chosen = run.boundaries.filter((boundary, n) => isEach || n % SAMPLE === 0 || isCritical(boundary));
      const ends = await run.strikeAll(chosen, fate);
      expect(ends.moved + ends.failed).toBe(chosen.length);
      expect(ends.failed > 0).toBe(settledBy !== 'retries');
    },
    1_800_000,
  );
});

/** It has happened, and nobody knows. */
function isCritical({ way, what }: { way: string; what: string }): boolean {
  return (way === 'result' && what === 'COMMIT') || way === 'reply';
}
