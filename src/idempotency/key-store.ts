import type { QueryResult } from 'pg';
import type { Statement } from '../database/transaction.js';
import { FINGERPRINT_VERSION } from './fingerprint.js';
import type { KeyRecord, StoredResponse } from './key-record.js';
import type { KeyScope } from './key-scope.js';
import type { KeyedRequest } from './keyed-request.js';

/**
 * Takes the key, if it is free. The primary key decides, not a look before: two claims at once meet in the index, and
 * the later one *blocks* until the earlier transaction has ended. That block is how a duplicate waits.
 *
 * A key past its retention is taken over in the same statement, so that it is free whether or not the cleanup has come
 * by. `EXCLUDED.created_at` is the database's clock; Citus refuses a function in this WHERE.
 */
export function claimStatement({ scope, fingerprint }: KeyedRequest): Statement {
  return {
    text: `
      INSERT INTO idempotency_keys AS k
        (tenant_id, key, endpoint, status, version, fingerprint, fingerprint_version, created_at)
      VALUES ($1, $2, $3, 'in_progress', 1, $4, $5, statement_timestamp())
      ON CONFLICT (tenant_id, key, endpoint) DO UPDATE SET
        status = 'in_progress', version = k.version + 1,
        fingerprint = EXCLUDED.fingerprint, fingerprint_version = EXCLUDED.fingerprint_version,
        operation_id = NULL, lease_until = NULL, recovery_point = NULL, recovery_data = NULL,
        response_status = NULL, response_headers = NULL, response_body = NULL,
        created_at = EXCLUDED.created_at, completed_at = NULL, expires_at = NULL
      WHERE k.status = 'completed' AND k.expires_at <= EXCLUDED.created_at
      RETURNING version, created_at`,
    values: [scope.tenantId, scope.key, scope.endpoint, fingerprint, FINGERPRINT_VERSION],
  };
}

/** Reads the record. A statement of its own, because a claim that waited does not see what it has waited for. */
export function findStatement({ tenantId, key, endpoint }: KeyScope): Statement {
  return {
    text: `
      SELECT fingerprint, fingerprint_version, created_at, status, expires_at,
             response_status, response_headers, response_body,
             expires_at <= statement_timestamp() AS expired, lease_until > statement_timestamp() AS leased
      FROM idempotency_keys WHERE tenant_id = $1 AND key = $2 AND endpoint = $3`,
    values: [tenantId, key, endpoint],
  };
}

/**
 * Writes the answer on the claim that this transaction holds. It may travel in COMMIT's flush, unlike a fence: the row
 * was written by this very transaction, so nobody else can have touched it.
 *
 * @param retention milliseconds, counted from now
 */
export function recordStatement(
  { tenantId, key, endpoint }: KeyScope,
  version: number,
  { status, headers, body }: StoredResponse,
  retention: number,
): Statement {
  return {
    text: `
      UPDATE idempotency_keys SET
        status = 'completed', response_status = $5, response_headers = $6, response_body = $7,
        completed_at = statement_timestamp(),
        expires_at = statement_timestamp() + $8 * interval '1 millisecond'
      WHERE tenant_id = $1 AND key = $2 AND endpoint = $3 AND version = $4 AND status = 'in_progress'
      RETURNING expires_at`,
    values: [tenantId, key, endpoint, version, status, headers, body, retention],
  };
}

interface KeyRow {
  readonly fingerprint: Buffer;
  readonly fingerprint_version: number;
  readonly created_at: Date;
  readonly status: 'in_progress' | 'completed';
  readonly expires_at: Date;
  readonly response_status: number;
  readonly response_headers: Record<string, string>;
  readonly response_body: Buffer;
  readonly expired: boolean | null;
  readonly leased: boolean | null;
}

/** The record that {@link findStatement} read; `undefined` when there is none, or only one past its retention. */
export function recordOf(rows: unknown): KeyRecord | undefined {
  const [row] = rows as readonly KeyRow[];
  if (!row || row.expired === true) return undefined;
  const seen = {
    fingerprint: row.fingerprint,
    fingerprintVersion: row.fingerprint_version,
    createdAt: row.created_at,
  };
  if (row.status !== 'completed') return { ...seen, leased: row.leased === true };
  const response = { status: row.response_status, headers: row.response_headers, body: row.response_body };
  return { ...seen, completed: { response, expiresAt: row.expires_at } };
}

/** What the claim brought; `undefined` when somebody else has the key. */
export function claimOf({ rows }: QueryResult): { version: number; createdAt: Date } | undefined {
  const [row] = rows as { version: number; created_at: Date }[];
  return row && { version: row.version, createdAt: row.created_at };
}

/** When the answer that {@link recordStatement} wrote expires. */
export function expiryOf({ rows }: QueryResult): Date {
  const [row] = rows as { expires_at: Date }[];
  if (!row) throw new Error('The claim was gone when its answer was recorded');
  return row.expires_at;
}
