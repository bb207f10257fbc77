/** What the service sends, written out once more, so that the ceiling owes nothing to its code. */

export const FIND_CALLER = 'SELECT id, tenant_id, hash FROM api_keys WHERE hash = $1 AND revoked_at IS NULL';

export const OPEN = 'BEGIN; SET LOCAL lock_timeout = 5; SET LOCAL statement_timeout = 1005';

export const CLAIM = `
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
  RETURNING version, created_at`;

export const FIND = `
  SELECT fingerprint, fingerprint_version, created_at, status, expires_at,
         response_status, response_headers, response_body,
         expires_at <= statement_timestamp() AS expired, lease_until > statement_timestamp() AS leased
  FROM idempotency_keys WHERE tenant_id = $1 AND key = $2 AND endpoint = $3`;

export const PROTECT = 'SET LOCAL lock_timeout = 5000; SET LOCAL statement_timeout = 10000; SAVEPOINT work';

export const INSERT_ORDER = `
  INSERT INTO orders (tenant_id, id, external_ref, status, currency, items, total_amount, metadata, version)
  VALUES ($1, $2, $3, 'pending', $4, $5, $6, $7, 1)
  ON CONFLICT DO NOTHING
  RETURNING orders.tenant_id AS "tenantId", orders.id, orders.external_ref AS "externalRef", orders.status,
    orders.currency, orders.items, orders.total_amount::float8 AS "totalAmount", orders.metadata, orders.version,
    orders.live_payment_id AS "livePaymentId", orders.had_payment AS "hadPayment",
    orders.created_at AS "createdAt", orders.updated_at AS "updatedAt", orders.deleted_at AS "deletedAt"`;

export const INSERT_EVENT = `
  INSERT INTO outbox (tenant_id, id, aggregatetype, aggregateid, aggregateversion, type, payload)
  VALUES ($1, $2, $3, $4, $5, $6, $7)`;

export const RECORD = `
  UPDATE idempotency_keys SET
    status = 'completed', response_status = $5, response_headers = $6, response_body = $7,
    completed_at = statement_timestamp(),
    expires_at = statement_timestamp() + $8 * interval '1 millisecond'
  WHERE tenant_id = $1 AND key = $2 AND endpoint = $3 AND version = $4 AND status = 'in_progress'
  RETURNING expires_at`;
