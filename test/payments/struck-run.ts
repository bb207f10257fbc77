import { expect } from '@jest/globals';
import { type Boundary, describeBoundary } from '../support/boundaries.js';
import type { ServiceResponse } from '../support/service-process.js';
import { type MoneyRequest, PayingProcesses } from './paying-processes.js';
import {
  type Course,
  type End,
  endsWithoutRepeating,
  expectNothingTorn,
  expectOneOutcome,
  expectReplay,
  finalAnswer,
  settledAlone,
} from './struck-courses.js';

/** What happens to the process in the middle of a course: it loses one connection, or its life. */
export type Fate = 'cut' | 'killed';

/**
 * On a busy machine a call may time out before the message to strike comes, or the reconciliation may have the key when the
 * request arrives: then that course is begun again.
 */
const TRIES = 20;
/** Courses that are settled while the next is struck. */
const AT_ONCE = 4;

interface Options {
  /** Settings of a process that settles what nobody asks for; without them there is none. */
  readonly reconciling?: Record<string, string>;
  /** Whether the client comes back only when that is done. */
  readonly waitsForReconciliation: boolean;
}

interface Attempt {
  readonly amount: number;
  readonly request: MoneyRequest;
  /** Undefined: none came, because the process was killed. */
  readonly answer: ServiceResponse | undefined;
}

/** One course, begun again and again, and struck at another boundary each time. */
export class StruckRun {
  /** Found by listening to a course that nothing happened to. */
  boundaries: readonly Boundary[] = [];
  private nextAmount = 1_001;
  private readonly answered: { request: MoneyRequest; final: ServiceResponse }[] = [];

  private constructor(
    private readonly course: Course,
    private readonly processes: PayingProcesses,
    private readonly options: Options,
  ) {}

  static async start(course: Course, options: Options): Promise<StruckRun> {
    const run = new StruckRun(course, await PayingProcesses.start(), options);
    await run.undisturbed(); // connections are made, and what is made at the first use
    run.boundaries = await run.undisturbed();
    // Only now: a reconciliation may be faster than the course, and write a part of it.
    if (options.reconciling) await run.processes.replaceOther(options.reconciling);
    return run;
  }

  /** @returns how many ended how */
  async strikeAll(chosen: readonly Boundary[], fate: Fate): Promise<Record<End, number>> {
    const begun = performance.now();
    const ends = { moved: 0, failed: 0 };
    const faults: unknown[] = [];
    const settling = new Set<Promise<void>>();
    this.answered.length = 0;
    for (const boundary of chosen) {
      const attempt = await this.strike(boundary, fate);
      const settled = this.settle(boundary, fate, attempt)
        .then((end) => void (ends[end] += 1))
        .catch(
          (error: unknown) => void faults.push(new Error(`Struck ${describeBoundary(boundary)}`, { cause: error })),
        )
        .finally(() => settling.delete(settled));
      settling.add(settled);
      if (fate === 'killed') this.processes.owner = await this.processes.startOwner();
      if (settling.size >= AT_ONCE) await Promise.race(settling);
    }
    await Promise.all(settling);
    // The owner only now: whatever it says meanwhile could be taken for the course that is struck.
    for (const { request, final } of this.answered)
      await expectReplay(this.processes, this.processes.owner, request, final);
    if (faults.length > 0) throw new AggregateError(faults, `${faults.length}: ${faults.map(reasonOf).join('\n')}`);
    const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
    console.log(
      `${this.course.name}, ${fate} at ${chosen.length} of ${this.boundaries.length} boundaries in ${seconds} s: ` +
        `${ends.moved} moved the money once, ${ends.failed} not at all`,
    );
    return ends;
  }

  stop(): Promise<void> {
    return this.processes.stop();
  }

  private async undisturbed(): Promise<readonly Boundary[]> {
    const { processes, course } = this;
    for (let tries = 0; tries < TRIES; tries++) {
      const request = await course.prepare(processes, this.nextAmount++);
      await processes.logIn(processes.owner);
      let status = 0;
      const heard = await processes.wire.listen(async () => {
        status = (await processes.send(processes.owner, request)).status;
      });
      if (status === 201) return heard;
    }
    throw new Error(`${course.name} never came to its end undisturbed`);
  }

  private async strike(boundary: Boundary, fate: Fate): Promise<Attempt> {
    const { processes, course } = this;
    const { owner } = processes;
    for (let tries = 0; tries < TRIES; tries++) {
      const amount = this.nextAmount++;
      const request = await course.prepare(processes, amount);
      await processes.logIn(owner);
      const { struck, disarm } = processes.wire.strike(boundary, this.boundaries, () =>
        fate === 'killed' ? owner.kill() : undefined,
      );
      const answer = await processes.send(owner, request).catch(() => undefined);
      disarm();
      if (await struck) return { amount, request, answer };
    }
    throw new Error(`The course never came as far as ${describeBoundary(boundary)}`);
  }

  private async settle(boundary: Boundary, fate: Fate, { amount, request, answer }: Attempt): Promise<End> {
    const { processes, course, options } = this;
    const { other } = processes;
    const expected: unknown[] = fate === 'killed' ? [undefined] : options.reconciling ? [503, 409] : [503];
    if (!expected.includes(answer?.status) && !isReplay(answer)) {
      throw new Error(`The struck request got ${answer?.status} ${answer?.text}`);
    }
    // A reconciliation that reads lists settles money by itself, before anybody has the key.
    if (!options.reconciling) await expectNothingTorn(processes, course, request);
    if (options.waitsForReconciliation) await settledAlone(processes, request);
    const final = await finalAnswer(processes, other, request);
    if (answer && isReplay(answer)) expect([answer.status, answer.text]).toEqual([final.status, final.text]);
    const end = await expectOneOutcome(processes, course, amount, request, final);
    const allowed: readonly End[] = options.reconciling
      ? endsWithoutRepeating(this.boundaries, this.boundaries.indexOf(boundary), course)
      : ['moved'];
    if (!allowed.includes(end)) throw new Error(`It ended as ${end}, where only ${allowed.join(' or ')} is right`);
    await expectReplay(processes, other, request, final);
    this.answered.push({ request, final });
    return end;
  }
}

/**
 * Struck just before it heard that it is completed, a request may find that out by itself; and where the reconciliation has
 * been faster, what came of that, or that it is not done yet (409).
 */
function isReplay(answer: ServiceResponse | undefined): boolean {
  return answer?.headers['idempotent-replayed'] === 'true';
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as { message: string; cause?: { message?: string } };
  return `${message}: ${cause?.message}`;
}
