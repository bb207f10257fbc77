import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

// Loaded into the service before its own code: on SIGUSR2 it collects garbage and prints what is left.
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc');

process.on('SIGUSR2', () => {
  collect();
  // What finalizers free is gone after the second.
  setImmediate(() => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    process.stdout.write(`in use after collection: ${((heapUsed + external) / 1_048_576).toFixed(1)} MB\n`);
  });
});
