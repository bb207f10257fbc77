/**
 * The scopes whose answers this process has seen lately. Only a hint where to look first: for these a plain read will
 * most likely do, and a claim that would lock the row for nothing is spared. What it says is never an answer.
 */
export class RecentKeys {
  private readonly ids = new Set<string>();

  constructor(private readonly capacity: number) {}

  has(id: string): boolean {
    return this.ids.has(id);
  }

  add(id: string): void {
    this.ids.delete(id);
    this.ids.add(id);
    if (this.ids.size > this.capacity) this.ids.delete(this.ids.values().next().value!);
  }
}
