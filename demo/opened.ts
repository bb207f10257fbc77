/** What was opened, to be closed in the other order, however far the opening has come. */
export class Opened {
  private readonly closers: (() => Promise<unknown>)[] = [];
  private closing: Promise<void> | undefined;

  /**
   * @param open begins at once, so that even what is half open when everything is closed is waited for and closed
   * @throws Error once everything is being closed: nothing may be left behind
   */
  async add<T>(open: () => Promise<T>, close: (opened: T) => Promise<unknown>): Promise<T> {
    this.throwIfClosing();
    const opening = open();
    this.closers.push(() =>
      opening.then(
        (opened) => close(opened),
        () => undefined, // told to whoever opened it
      ),
    );
    return opening;
  }

  /** Does something that must be over before what it works on is closed: a connection that is cut in the middle throws. */
  async finish<T>(work: () => Promise<T>): Promise<T> {
    return this.add(work, async () => undefined);
  }

  /** @throws Error once everything is being closed */
  throwIfClosing(): void {
    if (this.closing) throw new Error('The demonstration is ending');
  }

  /** Closes all of it, also when some of it fails to close. */
  close(): Promise<void> {
    return (this.closing ??= this.closeAll());
  }

  private async closeAll(): Promise<void> {
    const failures: unknown[] = [];
    for (const close of this.closers.splice(0).reverse()) {
      await close().catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) throw new AggregateError(failures, 'Not everything could be closed');
  }
}
