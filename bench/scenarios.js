import { randomUUID } from 'node:crypto';
import { sendOne } from './load.js';

/**
 * @typedef {import('./load.js').Course} Course
 * @typedef {{ url: string, database: import('./database.js').Database }} Target
 * @typedef {Course & { prove: () => Promise<string | undefined>, notes?: () => string }} Scenario `prove` counts rows
 *   when all is sent, and says what is wrong with them
 */

const HEADERS = { Authorization: 'Bearer sk_demo_acme', 'Content-Type': 'application/json' };

/**
 * Ready to be sent to that target, with what it needs already there.
 *
 * @type {Record<string, (target: Target, size?: { stored?: number }) => Promise<Scenario>>} `stored`: keys to replay
 */
export const SCENARIOS = { unkeyed, keyed, replay, refusal, contention };

/** PUT by a fresh external reference: the same work without a key. */
async function unkeyed({ database }) {
  const refs = new References('unkeyed');
  return {
    next: () => {
      const ref = refs.next();
      return { method: 'PUT', path: `/v1/orders/by-external-ref/${ref}`, headers: { ...HEADERS }, body: orderOf(ref) };
    },
    check: (sent, received) => refs.answered(isOrder(received, 201, sent.path.split('/').at(-1))),
    prove: async () => differs(await rowsOf(database, refs.prefix), refs.count, { keys: 0 }),
  };
}

/** POST under a fresh key: claim, order, event and answer in one transaction. */
async function keyed({ database }) {
  const refs = new References('keyed');
  return {
    next: () => {
      const ref = refs.next();
      return post(ref, orderOf(ref));
    },
    check: (sent, received) =>
      refs.answered(isOrder(received, 201, sent.headers['Idempotency-Key']) ?? isReplay(received, false)),
    prove: async () => differs(await rowsOf(database, refs.prefix), refs.count),
  };
}

/** POST under keys whose answer is stored: nothing runs. */
async function replay({ url, database }, { stored: keys = 500 } = {}) {
  const refs = new References('replay');
  const stored = [];
  for (let n = 0; n < keys; n++) {
    const ref = refs.next();
    const { status, body } = await sendOne(url, post(ref, orderOf(ref)));
    refs.answered(status === 201 ? undefined : `preparing a replay: ${status} ${body}`);
    stored.push({ ref, body });
  }
  const bodies = new Map(stored.map(({ ref, body }) => [ref, body]));
  let at = 0;
  return {
    next: () => {
      const { ref } = stored[at++ % keys];
      return post(ref, orderOf(ref));
    },
    check: (sent, received) =>
      isStatus(received, 201) ??
      isReplay(received, true) ??
      (received.body === bodies.get(sent.headers['Idempotency-Key']) ? undefined : 'other bytes than the first answer'),
    prove: async () => differs(await rowsOf(database, refs.prefix), keys),
  };
}

/** POST under a fresh key for an external reference that is taken: a 409 that is stored. */
async function refusal({ url, database }) {
  const refs = new References('refusal');
  const taken = refs.next();
  await sendOne(url, post(taken, orderOf(taken)));
  return {
    next: () => post(refs.next(), orderOf(taken)),
    check: (_sent, received) => {
      const isRefusal = received.body.includes('"duplicate-external-ref"') ? undefined : received.body;
      return refs.answered(isStatus(received, 409) ?? isRefusal ?? isReplay(received, false));
    },
    prove: async () => differs(await rowsOf(database, refs.prefix), 1, { keys: refs.count + 1 }),
  };
}

/** PATCH of one order by everybody at once, each with the version it has last heard of. */
async function contention({ url, database }) {
  const refs = new References('contention');
  const ref = refs.next();
  const created = await sendOne(url, post(ref, orderOf(ref)));
  const { id } = JSON.parse(created.body);
  let etag = created.headers.etag;
  let changes = 0;
  let stale = 0;
  return {
    next: () => ({
      method: 'PATCH',
      path: `/v1/orders/${id}`,
      headers: { ...HEADERS, 'If-Match': etag },
      body: JSON.stringify({ metadata: { change: randomUUID() } }),
    }),
    check: (_sent, received) => {
      etag = received.headers.etag ?? etag;
      if (received.status === 200) changes++;
      else if (received.status === 412) stale++;
      else return `${received.status} ${received.body}`;
    },
    prove: async () => {
      const { version, events } = await database.row(
        `SELECT version, (SELECT count(*)::int FROM outbox WHERE aggregateid = orders.id) AS events
         FROM orders WHERE id = $1`,
        [id],
      );
      const expected = changes + 1;
      if (version === expected && events === expected) return undefined;
      return `${changes} changes were answered, but the order has version ${version} and ${events} events`;
    },
    notes: () => `${Math.round((100 * changes) / (changes + stale))} % 200, the others 412`,
  };
}

/** Names for what one scenario sends, and the count of what was answered. */
class References {
  count = 0;
  #next = 0;

  constructor(name) {
    this.prefix = `${name}-${randomUUID().slice(0, 8)}-`;
  }

  next() {
    return `${this.prefix}${this.#next++}`;
  }

  answered(fault) {
    if (fault === undefined) this.count++;
    return fault;
  }
}

function post(key, body) {
  return { method: 'POST', path: '/v1/orders', headers: { ...HEADERS, 'Idempotency-Key': key }, body };
}

function orderOf(externalRef) {
  return JSON.stringify({
    externalRef,
    currency: 'EUR',
    items: [
      { sku: 'TEA-EARL-GREY', quantity: 2, unitAmount: 1250 },
      { sku: 'CUP-LARGE', quantity: 1, unitAmount: 890 },
    ],
    metadata: { channel: 'web', campaign: 'autumn' },
  });
}

function isStatus({ status, body }, expected) {
  return status === expected ? undefined : `${status} instead of ${expected}: ${body}`;
}

function isOrder(received, status, externalRef) {
  const isIt = received.body.includes(`"externalRef":"${externalRef}"`);
  return isStatus(received, status) ?? (isIt ? undefined : `another order than ${externalRef}: ${received.body}`);
}

function isReplay({ headers }, expected) {
  const replayed = headers['idempotent-replayed'] === 'true';
  return replayed === expected ? undefined : `it is ${replayed ? 'a' : 'no'} replay`;
}

async function rowsOf(database, prefix) {
  return database.row(
    `SELECT (SELECT count(*) FROM orders WHERE external_ref LIKE $1)::int AS orders,
            (SELECT count(*) FROM outbox WHERE payload->>'externalRef' LIKE $1)::int AS events,
            (SELECT count(*) FROM idempotency_keys WHERE key LIKE $1 AND status = 'completed')::int AS keys`,
    [`${prefix}%`],
  );
}

function differs(rows, count, others = {}) {
  const expected = { orders: count, events: count, keys: count, ...others };
  const faults = Object.keys(expected).filter((name) => rows[name] !== expected[name]);
  if (faults.length === 0) return undefined;
  return faults.map((name) => `${rows[name]} ${name} in the database instead of ${expected[name]}`).join(', ');
}
