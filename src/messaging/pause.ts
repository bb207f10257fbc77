const SHORTEST = 20;

/** A wait between two looks that grows while nothing happens and that a nudge ends. */
export class Pause {
  private length = SHORTEST;
  private nudged = false;
  private wake: () => void = () => undefined;

  /** @param most milliseconds */
  constructor(private readonly most: number) {}

  /** Something happens: the next waits are short again. */
  shorten(): void {
    this.length = SHORTEST;
  }

  async next(): Promise<void> {
    const length = this.length;
    this.length = Math.min(this.most, length * 2);
    await this.wait(length);
  }

  async longest(): Promise<void> {
    this.length = this.most;
    await this.wait(this.most * (0.5 + Math.random() / 2));
  }

  /** Ends the present wait, or spares the next one. */
  end(): void {
    this.shorten();
    this.nudged = true;
    this.wake();
  }

  private async wait(milliseconds: number): Promise<void> {
    if (!this.nudged) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        this.wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    this.nudged = false;
  }
}
