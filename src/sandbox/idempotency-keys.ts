import { createHash } from 'node:crypto';
import canonicalize from 'canonicalize';
import { type Reply } from './reply.js';
import type { Sql } from './sandbox-database.js';
import { StripeRefusal } from './stripe/stripe-refusal.js';

/** A request that carries a key. */
export interface KeyedRequest {
  readonly key: string;
  readonly path: string;
  /** Of its parameters. */
  readonly fingerprint: string;
  /** `req_…` */
  readonly requestId: string;
}

const RETENTION = `interval '24 hours'`;

export function fingerprintOf(parameters: object): string {
  return createHash('sha256').update(canonicalize(parameters)!).digest('hex');
}

interface Kept {
  readonly path: string;
  readonly fingerprint: string;
  readonly status: number;
  readonly body: string;
  readonly requestId: string;
  readonly answered: boolean;
}

/**
 * The reply that was given under the key, as Stripe documents it. Holds the key until the transaction ends: the lock is
 * what tells a repeat of a request that still runs from one whose sandbox was killed.
 *
 * @throws StripeRefusal 409 while the first request with the key runs; 400 when that was another request
 */
export async function findReply(sql: Sql, { key, path, fingerprint }: KeyedRequest): Promise<Reply | undefined> {
  const [lock] = await sql.query<{ held: boolean }>(
    `SELECT pg_try_advisory_xact_lock(hashtextextended('sandbox idempotency key ' || $1, 0)) AS held`,
    [key],
  );
  if (!lock!.held) throw inUse(key);
  const [kept] = await sql.query<Kept>(
    `SELECT path, fingerprint, status, body, request_id AS "requestId", answered_at <= statement_timestamp() AS answered
     FROM sandbox.idempotency_keys WHERE key = $1 AND created_at > statement_timestamp() - ${RETENTION}`,
    [key],
  );
  if (!kept) return undefined;
  if (kept.path !== path)
    throw reused(key, `for the same endpoint they were first used for ('${path}' vs '${kept.path}')`);
  if (kept.fingerprint !== fingerprint) throw reused(key, 'with the same parameters they were first used with');
  if (!kept.answered) throw inUse(key);
  const headers = { 'idempotent-replayed': 'true', 'original-request': kept.requestId };
  return { status: kept.status, body: kept.body, headers };
}

/**
 * @param delayMs how long the reply is still on its way; until then the request counts as running
 */
export async function keepReply(sql: Sql, request: KeyedRequest, reply: Reply, delayMs: number): Promise<void> {
  await sql.query(
    `INSERT INTO sandbox.idempotency_keys AS k
       (key, path, fingerprint, status, body, request_id, created_at, answered_at)
     VALUES ($1, $2, $3, $4, $5, $6, statement_timestamp(), statement_timestamp() + $7 * interval '1 millisecond')
     ON CONFLICT (key) DO UPDATE SET
       path = EXCLUDED.path, fingerprint = EXCLUDED.fingerprint, status = EXCLUDED.status, body = EXCLUDED.body,
       request_id = EXCLUDED.request_id, created_at = EXCLUDED.created_at, answered_at = EXCLUDED.answered_at`,
    [request.key, request.path, request.fingerprint, reply.status, reply.body ?? '', request.requestId, delayMs],
  );
}

function inUse(key: string): StripeRefusal {
  return new StripeRefusal(409, {
    type: 'idempotency_error',
    code: 'idempotency_key_in_use',
    message:
      `There is currently another in-progress request using this Idempotent Key (that probably means you submitted ` +
      `twice, and the other request is still going through): ${key}. Please try again later.`,
  });
}

function reused(key: string, how: string): StripeRefusal {
  return new StripeRefusal(400, {
    type: 'idempotency_error',
    message:
      `Keys for idempotent requests can only be used ${how}. Try using a key other than '${key}' if you meant to ` +
      `execute a different request.`,
  });
}
