import type { QueryResult } from 'pg';
import type { Statement } from '../database/transaction.js';
import { FINGERPRINT_VERSION } from './fingerprint.js';
import type { StoredResponse } from './key-record.js';
import type { KeyScope } from './key-scope.js';
import type { KeyedRequest } from './keyed-request.js';

/** The recovery point of an operation that has committed nothing but its claim. */
export const CREATED = 'created';

/** The lease may be extended for so many times its length; then a hung handler loses it. */
const LONGEST_HOLD = 4;

/** Who owns a key, and of which operation: what a fence compares. */
export interface Ownership {
  readonly scope: KeyScope;
  /** Made once, kept through takeovers; a key that is given free and claimed again has another. */
  readonly operationId: string;
  /** Raised by each takeover. */
  readonly version: number;
}

/** An operation as its claim, or the takeover of it, found it. */
export interface Claimed extends Ownership {
  readonly createdAt: Date;
  readonly takenOver: boolean;
  readonly recoveryPoint: string;
  readonly recoveryData: unknown;
  /** The database's clock, as text with all its digits: until then steps may extend the lease. */
  readonly heldUntil: string;
}

/**
 * Takes the key, if it is free or its owner's lease has lapsed: by one statement, so that of two who would take it over
 * one does. What is taken over keeps its operation id and its recovery point, and is only had by the same request; what
 * has expired begins anew. An owner whose lease has not lapsed is never disturbed.
 *
 * @param operationId for a new operation
 * @param lease milliseconds
 */
export function claimLeaseStatement(
  { scope, fingerprint }: KeyedRequest,
  operationId: string,
  lease: number,
): Statement {
  return {
    text: `
      INSERT INTO idempotency_keys AS k
        (tenant_id, key, endpoint, status, version, fingerprint, fingerprint_version, created_at,
         operation_id, lease_until, recovery_point)
      VALUES ($1, $2, $3, 'in_progress', 1, $4, $5, statement_timestamp(),
              $6, statement_timestamp() + $7::float8 * interval '1 millisecond', '${CREATED}')
      ON CONFLICT (tenant_id, key, endpoint) DO UPDATE SET
        status = 'in_progress', version = k.version + 1, lease_until = EXCLUDED.lease_until,
        operation_id   = CASE k.status WHEN 'completed' THEN EXCLUDED.operation_id ELSE k.operation_id END,
        recovery_point = CASE k.status WHEN 'completed' THEN EXCLUDED.recovery_point ELSE k.recovery_point END,
        recovery_data  = CASE k.status WHEN 'completed' THEN NULL ELSE k.recovery_data END,
        fingerprint    = CASE k.status WHEN 'completed' THEN EXCLUDED.fingerprint ELSE k.fingerprint END,
        fingerprint_version =
          CASE k.status WHEN 'completed' THEN EXCLUDED.fingerprint_version ELSE k.fingerprint_version END,
        created_at     = CASE k.status WHEN 'completed' THEN EXCLUDED.created_at ELSE k.created_at END,
        response_status = NULL, response_headers = NULL, response_body = NULL, completed_at = NULL, expires_at = NULL
      WHERE (k.status = 'completed' AND k.expires_at <= EXCLUDED.created_at)
         OR (k.status = 'in_progress' AND k.lease_until <= EXCLUDED.created_at
             AND (k.fingerprint = EXCLUDED.fingerprint OR k.fingerprint_version <> EXCLUDED.fingerprint_version))
      RETURNING ${claimedColumns('$7')}, created_at < statement_timestamp() AS taken_over`,
    values: [scope.tenantId, scope.key, scope.endpoint, fingerprint, FINGERPRINT_VERSION, operationId, lease],
  };
}

/** Takes over an operation whose lease has lapsed, unless somebody did before. */
export function takeOverStatement({ scope, operationId, version }: Ownership, lease: number): Statement {
  return {
    text: `
      UPDATE idempotency_keys SET
        version = version + 1, lease_until = statement_timestamp() + $6::float8 * interval '1 millisecond'
      WHERE ${OWNED} AND lease_until <= statement_timestamp()
      RETURNING ${claimedColumns('$6')}, true AS taken_over`,
    values: [scope.tenantId, scope.key, scope.endpoint, operationId, version, lease],
  };
}

/** @param lease the parameter with the length of the lease */
function claimedColumns(lease: string): string {
  return `version, created_at, operation_id, recovery_point, recovery_data,
    (lease_until + ${LONGEST_HOLD - 1} * ${lease}::float8 * interval '1 millisecond')::text AS held_until`;
}

/** The fence: matches nothing once the key has changed hands, was completed, or was given free and claimed again. */
const OWNED = `tenant_id = $1 AND key = $2 AND endpoint = $3 AND operation_id = $4 AND version = $5
  AND status = 'in_progress'`;

function owner({ scope, operationId, version }: Ownership): unknown[] {
  return [scope.tenantId, scope.key, scope.endpoint, operationId, version];
}

/**
 * Holds the key against takeover until the end of the transaction. Its row count must be looked at before COMMIT is
 * sent: a plain SELECT would be no fence, and a COMMIT sent behind a fence that matched nothing writes all the same.
 */
export function fenceStatement(ownership: Ownership): Statement {
  return { text: `SELECT FROM idempotency_keys WHERE ${OWNED} FOR UPDATE`, values: owner(ownership) };
}

/** Notes how far the operation has come, and extends the lease up to its bound. Behind {@link fenceStatement} only. */
export function stepStatement(claimed: Claimed, recoveryPoint: string, data: unknown, lease: number): Statement {
  return {
    text: `
      UPDATE idempotency_keys SET
        recovery_point = $6, recovery_data = $7,
        lease_until = least(statement_timestamp() + $8 * interval '1 millisecond', $9::timestamptz)
      WHERE ${OWNED}`,
    values: [
      ...owner(claimed),
      recoveryPoint,
      data === undefined ? null : JSON.stringify(data),
      lease,
      claimed.heldUntil,
    ],
  };
}

/** Writes the answer and gives up the lease. Behind {@link fenceStatement}, or with its row count looked at. */
export function completeStatement(
  ownership: Ownership,
  recoveryPoint: string,
  { status, headers, body }: StoredResponse,
  retention: number,
): Statement {
  return {
    text: `${COMPLETE}, recovery_point = $10 WHERE ${OWNED} RETURNING expires_at`,
    values: [...owner(ownership), status, headers, body, retention, recoveryPoint],
  };
}

/** Writes the answer to an operation that has committed no step. */
export function refuseStatement(
  ownership: Ownership,
  { status, headers, body }: StoredResponse,
  retention: number,
): Statement {
  return {
    text: `${COMPLETE} WHERE ${OWNED} AND recovery_point = '${CREATED}' RETURNING expires_at`,
    values: [...owner(ownership), status, headers, body, retention],
  };
}

const COMPLETE = `
  UPDATE idempotency_keys SET
    status = 'completed', response_status = $6, response_headers = $7, response_body = $8,
    completed_at = statement_timestamp(), expires_at = statement_timestamp() + $9 * interval '1 millisecond',
    lease_until = NULL, recovery_data = NULL`;

/** Gives the key of an operation free that has committed no step: a retry begins anew. */
export function releaseStatement(ownership: Ownership): Statement {
  return {
    text: `DELETE FROM idempotency_keys WHERE ${OWNED} AND recovery_point = '${CREATED}' RETURNING 1`,
    values: owner(ownership),
  };
}

/** Lets anybody take over at once. */
export function giveBackStatement(ownership: Ownership): Statement {
  return {
    text: `UPDATE idempotency_keys SET lease_until = statement_timestamp() WHERE ${OWNED} RETURNING 1`,
    values: owner(ownership),
  };
}

interface ClaimedRow {
  readonly version: number;
  readonly created_at: Date;
  readonly operation_id: string;
  readonly recovery_point: string;
  readonly recovery_data: unknown;
  readonly held_until: string;
  readonly taken_over: boolean;
}

/** What a claim or a takeover brought; `undefined` when somebody else has the key. */
export function leaseOf(scope: KeyScope, { rows }: Pick<QueryResult, 'rows'>): Claimed | undefined {
  const [row] = rows as ClaimedRow[];
  return (
    row && {
      scope,
      operationId: row.operation_id,
      version: row.version,
      createdAt: row.created_at,
      takenOver: row.taken_over,
      recoveryPoint: row.recovery_point,
      recoveryData: row.recovery_data,
      heldUntil: row.held_until,
    }
  );
}
