/**
 * Runs in the service before it: its wall clock is off by so many milliseconds. Timers and `performance.now` go on as they
 * do when somebody sets a machine's clock.
 */
export function clockOff(milliseconds: number): string {
  return `data:text/javascript,${encodeURIComponent(`
    const Right = Date;
    const now = () => Right.now() + ${milliseconds};
    globalThis.Date = class Date extends Right {
      constructor(...given) {
        if (given.length === 0) super(now());
        else super(...given);
      }
      static now() {
        return now();
      }
    };
  `)}`;
}
