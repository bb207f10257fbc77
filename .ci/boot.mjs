// Starts the built service as `npm run start:prod` does and sends one order twice. Some faults of ES modules appear only
// in what was built.
import { spawn } from 'node:child_process';
import { once } from 'node:events';

const service = spawn('node', ['--enable-source-maps', 'dist/src/main.js'], { stdio: ['ignore', 'pipe', 'inherit'] });
const exited = once(service, 'exit');
let output = '';
service.stdout.on('data', (chunk) => {
  process.stdout.write(chunk);
  output += chunk;
});

async function address() {
  for (;;) {
    const found = /listening on (http:\S+)/.exec(output);
    if (found) return found[1];
    const ended = await Promise.race([once(service.stdout, 'data'), exited.then(() => 'ended')]);
    if (ended === 'ended') throw new Error('The service ended before it listened');
  }
}

function check(holds, what) {
  if (!holds) throw new Error(`Not so: ${what}`);
}

try {
  const base = await address();
  const send = () =>
    fetch(`${base}/v1/orders`, {
      method: 'POST',
      headers: {
        Authorization: 'Bearer sk_demo_acme',
        'Idempotency-Key': 'boot',
        'Content-Type': 'application/json',
      },
      body: JSON.stringify({ currency: 'EUR', items: [{ sku: 'tea', unitAmount: 450 }] }),
    });
  const [first, second] = [await send(), await send()];
  check(first.status === 201 && second.status === 201, 'both answers are 201');
  check((await first.text()) === (await second.text()), 'the second answer is the first');
  check(second.headers.get('idempotent-replayed') === 'true', 'the second answer is marked as a replay');
  check((await fetch(`${base}/health/ready`)).ok, 'the service is ready');
  check((await fetch(`${base}/openapi.json`)).ok, 'the service describes itself');
} finally {
  service.kill('SIGTERM');
}
const [code] = await exited;
check(code === 0, `the service ends with status 0, not ${code}`);
