/**
 * The ceiling: what a keyed POST /v1/orders could do at most. A hand-written server on node:http and `pg`, with no
 * framework, no validation and no care for anything but the straight course, that sends the statements of the service in
 * the same flushes over a pool of the same size. `npm run bench` compares what both send on the wire.
 *
 * It is no example: it checks next to nothing.
 */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import pg from 'pg';
import { v7 as uuidv7 } from 'uuid';
import { CLAIM, FIND, FIND_CALLER, INSERT_EVENT, INSERT_ORDER, OPEN, PROTECT, RECORD } from './ceiling-statements.js';

const ENDPOINT = 'orders.create';
const FINGERPRINT_VERSION = 1;
const RETENTION = 24 * 3_600_000;
const CALLER_BELIEVED_FOR = 4_000;

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  max: Number(process.env.DATABASE_POOL_SIZE ?? 10),
  pipeline: true,
  keepAlive: true,
});

/** @type {Map<string, { caller: Promise<string | undefined>, until: number }>} */
const callers = new Map();

async function callerOf(authorization = '') {
  const hash = createHash('sha256').update(authorization.slice('Bearer '.length)).digest();
  const id = hash.toString('base64');
  const known = callers.get(id);
  if (known && known.until > performance.now()) return known.caller;
  const caller = pool.query(FIND_CALLER, [hash]).then(({ rows }) => rows[0]?.tenant_id);
  callers.set(id, { caller, until: performance.now() + CALLER_BELIEVED_FOR });
  return caller;
}

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** The claim waits 5 ms for a lock, and under load a lock may be that of a page: like the service, it tries again. */
async function createOrder(...request) {
  for (;;) {
    const client = await pool.connect();
    try {
      return await attempt(client, ...request);
    } catch (error) {
      await client.query('ROLLBACK').finally(() => client.release());
      if (error.code !== '55P03') throw error;
    }
  }
}

/** One key, one request: executes it, or finds what came of it. Gives the connection back unless it throws. */
async function attempt(client, tenantId, key, fingerprint, order) {
  const [, claimed, found] = await inOneFlush(client, () => [
    client.query(OPEN),
    client.query(CLAIM, [tenantId, key, ENDPOINT, fingerprint, FINGERPRINT_VERSION]),
    client.query(FIND, [tenantId, key, ENDPOINT]),
    client.query(PROTECT),
  ]);
  const [claim] = claimed.rows;
  if (!claim) {
    client.query('ROLLBACK').finally(() => client.release());
    const [record] = found.rows;
    const { response_status: status, response_headers: headers, response_body: body } = record;
    if (!record.fingerprint.equals(fingerprint)) return { status: 422, headers: {}, body: Buffer.alloc(0) };
    return { status, headers, body, expiresAt: record.expires_at, replayed: true };
  }

  const id = uuidv7();
  const total = order.items.reduce((sum, { quantity, unitAmount }) => sum + quantity * unitAmount, 0);
  const inserted = await client.query(INSERT_ORDER, [
    tenantId,
    id,
    order.externalRef,
    order.currency,
    JSON.stringify(order.items),
    total,
    JSON.stringify(order.metadata ?? {}),
  ]);
  const { tenantId: _tenant, deletedAt: _deleted, ...view } = inserted.rows[0];
  const text = JSON.stringify(view);
  const body = Buffer.from(text);
  const headers = { 'Content-Type': 'application/json; charset=utf-8', Location: `/v1/orders/${id}`, ETag: '"1"' };
  const [, recorded] = await inOneFlush(client, () => [
    client.query(INSERT_EVENT, [tenantId, uuidv7(), 'order', id, 1, 'order.created', text]),
    client.query(RECORD, [tenantId, key, ENDPOINT, claim.version, 201, headers, body, RETENTION]),
    client.query('COMMIT'),
  ]);
  client.release();
  return { status: 201, headers, body, expiresAt: recorded.rows[0].expires_at, replayed: false };
}

/** Like the service: what is sent together leaves in one system call. */
function inOneFlush({ connection: { stream } }, send) {
  stream.cork();
  const pending = send();
  stream.uncork();
  return Promise.all(pending);
}

async function answer(request, response) {
  const tenantId = await callerOf(request.headers.authorization);
  if (tenantId === undefined) return response.writeHead(401).end();
  const bytes = await bodyOf(request);
  const fingerprint = createHash('sha256').update(bytes).digest();
  const key = request.headers['idempotency-key'];
  const { status, headers, body, expiresAt, replayed } = await createOrder(
    tenantId,
    key,
    fingerprint,
    JSON.parse(bytes.toString()),
  );
  response.writeHead(status, {
    ...headers,
    'Content-Length': body.length,
    ...(expiresAt && { 'Idempotency-Expires': expiresAt.toISOString() }),
    ...(replayed && { 'Idempotent-Replayed': 'true' }),
  });
  response.end(body);
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    response.writeHead(500).end();
  });
});
server.listen(Number(process.env.PORT), '127.0.0.1', () => {
  console.log(`The ceiling is listening on http://127.0.0.1:${server.address().port}\n`);
});
process.on('SIGTERM', () => process.exit(0));
