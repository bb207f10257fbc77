/** Something that is done when it is due. */
export interface Job {
  run(): Promise<void>;
  /** Milliseconds until there is something to do; undefined: not until {@link Background.wake}. */
  untilDue(): Promise<number | undefined>;
}

/** What another sandbox on the same database leaves undone is found this late. */
const LONGEST_SLEEP_MS = 5_000;
const AFTER_FAILURE_MS = 1_000;

/** Runs a job when woken and when it is due, never twice at once. */
export class Background {
  private running: Promise<void> | undefined;
  private timer: NodeJS.Timeout | undefined;
  private again = false;
  private stopped = false;
  private failing = false;

  constructor(
    private readonly job: Job,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** There may be something to do now. */
  wake(): void {
    if (this.stopped) return;
    if (this.running) {
      this.again = true;
      return;
    }
    clearTimeout(this.timer);
    this.running = this.round().finally(() => (this.running = undefined));
    void this.running.then(() => this.again && this.wake());
  }

  async stop(): Promise<void> {
    this.stopped = true;
    clearTimeout(this.timer);
    await this.running;
  }

  private async round(): Promise<void> {
    let sleep: number;
    do {
      this.again = false;
      sleep = await this.runJob();
    } while (this.again && !this.stopped);
    if (this.stopped) return;
    this.timer = setTimeout(() => this.wake(), Math.max(sleep, 1));
    this.timer.unref();
  }

  /** @returns milliseconds until the next time */
  private async runJob(): Promise<number> {
    try {
      await this.job.run();
      this.failing = false;
      return Math.min(LONGEST_SLEEP_MS, (await this.job.untilDue()) ?? LONGEST_SLEEP_MS);
    } catch (error) {
      // Told once, not every second that the database is away.
      if (!this.failing) this.failed(error);
      this.failing = true;
      return AFTER_FAILURE_MS;
    }
  }
}
