/**
 * Lets one piece of work of a name run at a time in this process, in the order in which they came. What would wait for a
 * row otherwise waits here and holds no connection: however often a feed's batches are repeated, they leave the pool to
 * others. Between processes the row's lock decides.
 */
export class Turns {
  private readonly latest = new Map<string, Promise<unknown>>();

  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.latest.get(name) ?? Promise.resolve()).then(work);
    const end = turn.catch(() => undefined); // the next one comes, whatever became of this one
    this.latest.set(name, end);
    try {
      return await turn;
    } finally {
      if (this.latest.get(name) === end) this.latest.delete(name);
    }
  }
}
