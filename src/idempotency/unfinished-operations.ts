import { Inject, Injectable } from '@nestjs/common';
import { AcrossTenants } from '../database/across-tenants.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import { FINGERPRINT_VERSION } from './fingerprint.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';
import { CREATED, leaseOf, type Ownership, takeOverStatement } from './lease-store.js';
import { Operation } from './operation.js';

/** An operation behind its first step on which nobody works: its request has ended without an answer to store. */
export interface UnfinishedOperation extends Ownership {
  readonly recoveryPoint: string;
  readonly data: unknown;
  /** Milliseconds since its claim, by the database's clock. */
  readonly age: number;
}

interface Row {
  readonly key: string;
  readonly endpoint: string;
  readonly operation_id: string;
  readonly version: number;
  readonly recovery_point: string;
  readonly recovery_data: unknown;
  readonly age: number;
}

const UNFINISHED = `status = 'in_progress' AND recovery_point <> '${CREATED}' AND lease_until <= statement_timestamp()`;

/** For jobs that bring to an end what no request comes back for. */
@Injectable()
export class UnfinishedOperations {
  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly acrossTenants: AcrossTenants,
    @Inject(IDEMPOTENCY_OPTIONS) private readonly options: IdempotencyOptions,
  ) {}

  /** The tenants that have any. */
  async tenants(): Promise<string[]> {
    const rows = await this.acrossTenants.query<{ tenant_id: string }>(
      `SELECT DISTINCT tenant_id FROM idempotency_keys WHERE ${UNFINISHED}`,
    );
    return rows.map((row) => row.tenant_id);
  }

  /**
   * Those of a tenant at that endpoint, oldest first: operation ids (UUID version 7) rise with time.
   *
   * @param after the id of the last one of the page before
   */
  async list(tenantId: string, endpoint: string, limit: number, after = ''): Promise<UnfinishedOperation[]> {
    const rows = await this.unitOfWork.read(tenantId, (manager) =>
      manager.query<Row[]>(
        `SELECT key, endpoint, operation_id, version, recovery_point, recovery_data,
                extract(epoch FROM statement_timestamp() - created_at)::float8 * 1000 AS age
         FROM idempotency_keys
         WHERE tenant_id = $1 AND endpoint = $2 AND ${UNFINISHED} AND ($4 = '' OR operation_id > nullif($4, '')::uuid)
         ORDER BY operation_id LIMIT $3`,
        [tenantId, endpoint, limit, after],
      ),
    );
    return rows.map((row) => ({
      scope: { tenantId, endpoint: row.endpoint, key: row.key },
      operationId: row.operation_id,
      version: row.version,
      recoveryPoint: row.recovery_point,
      data: row.recovery_data,
      age: row.age,
    }));
  }

  /**
   * Makes the caller the owner, as a retry of the client would be: whoever comes first goes on, and the other waits.
   *
   * @returns `undefined` when somebody else was first
   */
  async takeOver(operation: UnfinishedOperation): Promise<Operation | undefined> {
    const takenAt = performance.now();
    const { text, values } = takeOverStatement(operation, this.options.lease);
    const rows = await this.unitOfWork.run(operation.scope.tenantId, (transaction) => transaction.query(text, values));
    const claimed = leaseOf(operation.scope, { rows });
    const seen = { fingerprint: Buffer.alloc(0), fingerprintVersion: FINGERPRINT_VERSION };
    return claimed && new Operation(this.unitOfWork, claimed, this.options, takenAt, seen);
  }
}
