import { Column, Entity, PrimaryColumn } from 'typeorm';

/**
 * What the service knows of one key of one tenant at one endpoint. The claim, the answer and everything the request
 * wrote become visible by the same COMMIT, so nobody ever sees a local operation `in_progress`.
 */
@Entity('idempotency_keys')
export class IdempotencyKey {
  @PrimaryColumn('uuid', { name: 'tenant_id' })
  tenantId!: string;

  @PrimaryColumn('text')
  key!: string;

  /** The stable name of the endpoint (`orders.create`): part of the scope, so that one key may serve two endpoints. */
  @PrimaryColumn('text')
  endpoint!: string;

  @Column('text')
  status!: 'in_progress' | 'completed';

  /** Raised whenever the key changes hands; the fence of whoever owns it. */
  @Column('integer')
  version!: number;

  /** SHA-256, 32 bytes. The request itself is not kept. */
  @Column('bytea')
  fingerprint!: Buffer;

  @Column('smallint', { name: 'fingerprint_version' })
  fingerprintVersion!: number;

  @Column('uuid', { name: 'operation_id', nullable: true })
  operationId!: string | null;

  @Column('timestamptz', { name: 'lease_until', nullable: true })
  leaseUntil!: Date | null;

  @Column('text', { name: 'recovery_point', nullable: true })
  recoveryPoint!: string | null;

  @Column('jsonb', { name: 'recovery_data', nullable: true, select: false })
  recoveryData!: unknown;

  @Column('smallint', { name: 'response_status', nullable: true })
  responseStatus!: number | null;

  @Column('jsonb', { name: 'response_headers', nullable: true, select: false })
  responseHeaders!: Record<string, string> | null;

  /** The bytes that were sent: `jsonb` would not give them back. */
  @Column('bytea', { name: 'response_body', nullable: true, select: false })
  responseBody!: Buffer | null;

  @Column('timestamptz', { name: 'created_at' })
  createdAt!: Date;

  @Column('timestamptz', { name: 'completed_at', nullable: true })
  completedAt!: Date | null;

  /** Retention counted from completion; an unfinished key has none and never expires. */
  @Column('timestamptz', { name: 'expires_at', nullable: true })
  expiresAt!: Date | null;
}
