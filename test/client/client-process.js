// A client in a process of its own, to be killed: it works through a list, and goes on where an earlier one was ended.
// It imports the package as its users do. Plain JavaScript on what is built, as it runs outside of Jest.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { OrdersClient } from 'idempotent-orders-service/client';
import { FileIntentStore } from 'idempotent-orders-service/client/file-intent-store';

const { BASE_URL, FOLDER, OPERATION, WORK, CONCURRENCY = '8', OPTIONS = '{}' } = process.env;
const outcomes = `${FOLDER}/outcomes`;
const work = JSON.parse(readFileSync(WORK, 'utf8')); // [{ reference, ... }]

/** Written before the intent is forgotten, so that there is no moment at which neither knows of it. */
function settle({ status, intent, value, error }) {
  const line = { reference: intent.reference, key: intent.key, status, id: value?.id, code: error?.code };
  appendFileSync(outcomes, `${JSON.stringify(line)}\n`, { flush: true });
}

const store = await FileIntentStore.open(`${FOLDER}/intents`);
const client = new OrdersClient({ baseUrl: BASE_URL, apiKey: 'sk_demo_acme', store, settle, ...JSON.parse(OPTIONS) });

for (let left = 1; left > 0;) {
  left = 0;
  for await (const { status } of client.resume({ concurrency: Number(CONCURRENCY) })) {
    if (status === 'damaged' || status === 'expired') throw new Error(status);
    if (status === 'unfinished') left += 1;
  }
}

const text = existsSync(outcomes) ? readFileSync(outcomes, 'utf8') : '';
// A line that was cut by the kill has its intent still stored, and so came again above.
const done = new Set(text.split('\n').flatMap((line) => (line.endsWith('}') ? [JSON.parse(line).reference] : [])));
const waiting = work.filter(({ reference }) => !done.has(reference));

async function one({ reference, orderId, body }) {
  const options = { reference };
  const call = () =>
    OPERATION === 'pay' ? client.payOrder(orderId, body, options) : client.createOrder(body, options);
  await call().catch((error) => {
    if (error.kind === undefined) throw error; // whatever is unfinished is resumed by the next process
  });
}

async function worker() {
  for (let next = waiting.shift(); next; next = waiting.shift()) await one(next);
}
await Promise.all(Array.from({ length: Number(CONCURRENCY) }, worker));
const rest = (await store.list()).intents.length;
await store.close();
process.exit(rest === 0 ? 0 : 75); // 75: come again
