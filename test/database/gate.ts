/** Where work waits until the test lets it go on. */
export class Gate {
  /** Lets everybody through, from now on. */
  open: () => void = () => undefined;
  readonly opened = new Promise<void>((resolve) => (this.open = resolve));
}
