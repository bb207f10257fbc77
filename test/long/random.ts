/** A source of chance that gives the same sequence for the same seed (splitmix32). */
export class Random {
  private state: number;

  /** Each case has a source of its own, so that case 17,204 can be made without the 17,203 before it. */
  constructor(seed: number, index: number) {
    this.state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) + Math.imul(index + 1, 0xc2b2ae35);
  }

  /** From 0 to below 1. */
  next(): number {
    this.state = (this.state + 0x9e3779b9) | 0;
    let mixed = this.state ^ (this.state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed ^= mixed >>> 15;
    mixed = Math.imul(mixed, 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  }

  /** A whole number, both ends included. */
  between(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** True in that share of the cases. */
  chance(share: number): boolean {
    return this.next() < share;
  }

  pick<T>(values: readonly T[]): T {
    return values[this.between(0, values.length - 1)]!;
  }

  /** One of several makers, each as often as its weight says; only the chosen one is run. */
  weighted<T>(makers: readonly (readonly [weight: number, make: () => T])[]): T {
    let left = this.next() * makers.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, make] of makers) {
      left -= weight;
      if (left < 0) return make();
    }
    return makers.at(-1)![1]();
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.between(0, 255)));
  }

  /** A UUID; `pool` says from how many, so that several cases meet at one resource. */
  uuid(pool = 2 ** 31): string {
    const hex = this.between(0, pool - 1)
      .toString(16)
      .padStart(12, '0');
    return `0198c0de-0000-7000-8000-${hex}`;
  }
}
