/**
 * Bounds how many connections may be inside a claim. A claim can block on another transaction's, and if blocked claims
 * could take every connection, duplicates of one key would stop everybody else.
 *
 * Half of the pool may claim at a time. Of these slots one is kept for claims that give up at once, so that a key which
 * nobody else holds never queues behind one that somebody does.
 */
export class ClaimSlots {
  private readonly size: number;
  private free: number;
  private waiting = 0;
  private readonly queue: (() => void)[] = [];

  constructor(poolSize: number) {
    this.size = Math.max(1, Math.floor(poolSize / 2));
    this.free = this.size;
  }

  /** Runs a claim that gives up at once, as soon as there is a slot. */
  async use<T>(claim: () => Promise<T>): Promise<T> {
    if (this.free > 0) this.free--;
    else await new Promise<void>((resolve) => this.queue.push(resolve));
    try {
      return await claim();
    } finally {
      this.giveBack();
    }
  }

  /** Whether a claim may now block for long: {@link useToWait} must follow at once. */
  get mayWait(): boolean {
    return this.free > 0 && this.waiting < this.size - 1;
  }

  /** Runs a claim that may block for long. */
  async useToWait<T>(claim: () => Promise<T>): Promise<T> {
    this.waiting++;
    try {
      return await this.use(claim);
    } finally {
      this.waiting--;
    }
  }

  private giveBack(): void {
    const next = this.queue.shift();
    if (next) next();
    else this.free++;
  }
}
