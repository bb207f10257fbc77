/**
 * Ends the process in order at the first SIGTERM or SIGINT; what is not done within the grace is cut off.
 *
 * @param grace milliseconds
 * @param told hears which signal it was
 */
export function stopOnSignal(
  stop: () => Promise<void>,
  grace: number,
  told: (signal: NodeJS.Signals) => void = () => undefined,
): void {
  let stopping = false;
  const onSignal = (signal: NodeJS.Signals) => {
    if (stopping) return;
    stopping = true;
    told(signal);
    setTimeout(() => process.exit(1), grace).unref();
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
}
