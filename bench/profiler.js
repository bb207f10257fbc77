/** Loaded into the service by `bench/profile.js`: the first SIGUSR2 starts the profiler, the second writes the profile. */
import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector';

const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.setSamplingInterval', { interval: 200 }); // microseconds
let running = false;
process.on('SIGUSR2', () => {
  running = !running;
  if (running) return session.post('Profiler.start', () => console.log('profiling'));
  session.post('Profiler.stop', (error, result) => {
    if (error) return console.error(error);
    writeFileSync(process.env.PROFILE, JSON.stringify(result.profile));
    console.log('profiled');
  });
});
