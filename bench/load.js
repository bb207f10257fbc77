import autocannon from 'autocannon';

/**
 * @typedef {{ method: string, path: string, headers: Record<string, string>, body?: string }} Sent
 * @typedef {{ status: number, body: string, headers: Record<string, string> }} Received
 * @typedef {object} Course what to send, one request after another, and what must come back
 * @property {() => Sent} next
 * @property {(sent: Sent, received: Received) => string | undefined} check what is wrong with an answer
 * @typedef {{ answers: number, seconds: number, latencies: number[] }} Round
 */

/**
 * Sends that many requests from concurrent clients and waits for every answer, so that what was counted here must be
 * in the database afterwards, to the row.
 *
 * @param {string} url
 * @param {Course} course
 * @param {{ amount: number, connections: number }} load
 * @returns {Promise<Round>} latencies in milliseconds, sorted
 * @throws Error when an answer is not the expected one, or is missing
 */
export async function send(url, course, { amount, connections }) {
  const latencies = [];
  let fault;
  let last = 0;
  const start = performance.now();
  const run = autocannon({
    url,
    connections,
    amount: Math.max(amount, connections),
    sampleInt: 50, // a run ends at a sample
    timeout: 30,
    requests: [
      {
        setupRequest: (request, context) => {
          context.sent = course.next();
          return { ...request, ...context.sent };
        },
        onResponse: (status, body, context, headers) => {
          last = performance.now();
          fault ??= course.check(context.sent, { status, body, headers: lowerCased(headers) });
        },
      },
    ],
  });
  run.on('response', (_client, _status, _bytes, latency) => latencies.push(latency));
  const { errors, timeouts } = await run;
  if (fault) throw new Error(`An answer is not as expected: ${fault}`);
  if (errors || timeouts) throw new Error(`${errors} errors and ${timeouts} timeouts on the network`);
  latencies.sort((a, b) => a - b);
  return { answers: latencies.length, seconds: (last - start) / 1_000, latencies };
}

/**
 * One request by itself.
 *
 * @param {string} url
 * @param {Sent} sent
 * @returns {Promise<Received>}
 */
export async function sendOne(url, { method, path, headers, body }) {
  const response = await fetch(new URL(path, url), { method, headers, body });
  return { status: response.status, body: await response.text(), headers: Object.fromEntries(response.headers) };
}

function lowerCased(headers) {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
