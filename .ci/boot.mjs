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

const JSON_TYPE = { 'Content-Type': 'application/json' };

function check(holds, what) {
  if (!holds) throw new Error(`Not so: ${what}`);
}

try {
  const base = await address();
  const send = (path, body) =>
    fetch(`${base}${path}`, {
      method: 'POST',
      headers: { ...JSON_TYPE, Authorization: 'Bearer sk_demo_acme', 'Idempotency-Key': 'boot' },
      body: JSON.stringify(body),
    });
  const create = () => send('/v1/orders', { currency: 'EUR', items: [{ sku: 'tea', unitAmount: 450 }] });
  const [first, second] = [await create(), await create()];
  const order = await first.text();
  check(first.status === 201 && second.status === 201, 'both answers are 201');
  check(order === (await second.text()), 'the second answer is the first');
  check(second.headers.get('idempotent-replayed') === 'true', 'the second answer is marked as a replay');
  const { id } = JSON.parse(order);
  const sandbox = /sandbox on (http:\S+)/.exec(output)[1];
  const fault = JSON.stringify({ operation: 'payment_intents.create', fault: 'drop-response' });
  await fetch(`${sandbox}/sandbox/faults`, { method: 'POST', headers: JSON_TYPE, body: fault });
  const pay = () => send(`/v1/orders/${id}/payments`, { method: 'card', paymentMethod: 'pm_card_visa' });
  const [lost, found] = [await pay(), await pay()];
  check(
    lost.status === 503 && found.status === 201,
    `a lost reply is 503 and then 201, not ${lost.status} and ${found.status}`,
  );
  const { effects } = await (await fetch(`${sandbox}/sandbox/effects`)).json();
  check(effects.length === 1, 'the money was taken once');
  check((await fetch(`${base}/health/ready`)).ok, 'the service is ready');
  check((await fetch(`${base}/openapi.json`)).ok, 'the service describes itself');
} finally {
  service.kill('SIGTERM');
}
const [code] = await exited;
check(code === 0, `the service ends with status 0, not ${code}`);
