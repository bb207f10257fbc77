import { Controller, Get, Inject, Param, Req } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiProperty, ApiTags } from '@nestjs/swagger';
import type { Request } from 'express';
import { UnitOfWork } from '../database/unit-of-work.js';
import { parseIdempotencyKey } from './idempotency-key.js';
import { IdempotencyKey } from './idempotency-key.entity.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';

class KeyStatus {
  @ApiProperty({ example: 'orders.create' })
  endpoint!: string;

  @ApiProperty({ enum: ['in_progress', 'completed'] })
  status!: string;

  @ApiProperty({
    type: String,
    nullable: true,
    description: 'The last step that is committed, of an operation with steps',
  })
  recoveryPoint!: string | null;

  @ApiProperty({ type: 'integer', nullable: true, example: 201 })
  responseStatus!: number | null;

  @ApiProperty({ type: String, format: 'date-time' })
  createdAt!: string;

  @ApiProperty({ type: String, format: 'date-time', nullable: true })
  completedAt!: string | null;

  @ApiProperty({ type: String, format: 'date-time', nullable: true })
  expiresAt!: string | null;

  @ApiProperty({ type: String, format: 'date-time', nullable: true })
  leaseUntil!: string | null;
}

class KeyStatusList {
  @ApiProperty({ type: [KeyStatus] })
  data!: KeyStatus[];
}

/** Tells a client, or whoever helps it, what became of a key. Never what the answer said. */
@ApiTags('Idempotency keys')
@Controller({ path: 'idempotency-keys', version: '1' })
export class IdempotencyKeysController {
  constructor(
    private readonly unitOfWork: UnitOfWork,
    @Inject(IDEMPOTENCY_OPTIONS) private readonly options: IdempotencyOptions,
  ) {}

  @Get(':key')
  @ApiOperation({
    operationId: 'getIdempotencyKey',
    summary: 'Tell what became of a key',
    description: "The tenant's records under it, one for each endpoint it was used at; none when it is unknown.",
  })
  @ApiParam({
    name: 'key',
    description: 'The key, as it was sent or without its quotes',
    example: '5f1c3f0e-7a55-4d0e-9b57-0f6a3a2b8c11',
  })
  @ApiOkResponse({
    description: 'The records, oldest first',
    type: KeyStatusList,
    example: {
      data: [
        {
          endpoint: 'orders.create',
          status: 'completed',
          recoveryPoint: null,
          responseStatus: 201,
          createdAt: '2026-11-29T20:11:41.690Z',
          completedAt: '2026-11-29T20:11:41.698Z',
          expiresAt: '2026-11-30T20:11:41.698Z',
          leaseUntil: null,
        },
      ],
    },
  })
  async show(@Req() request: Request, @Param('key') written: string): Promise<KeyStatusList> {
    const parsed = parseIdempotencyKey([written]);
    if ('problem' in parsed) return { data: [] };
    const tenantId = this.options.tenantOf(request);
    const records = await this.unitOfWork.read(tenantId, (manager) =>
      manager
        .createQueryBuilder(IdempotencyKey, 'k')
        .where('k.tenantId = :tenantId AND k.key = :key', { tenantId, key: parsed.key })
        .andWhere('(k.expiresAt IS NULL OR k.expiresAt > statement_timestamp())')
        .orderBy('k.createdAt')
        .getMany(),
    );
    return { data: records.map(statusOf) };
  }
}

function statusOf(record: IdempotencyKey): KeyStatus {
  return {
    endpoint: record.endpoint,
    status: record.status,
    recoveryPoint: record.recoveryPoint,
    responseStatus: record.responseStatus,
    createdAt: record.createdAt.toISOString(),
    completedAt: record.completedAt?.toISOString() ?? null,
    expiresAt: record.expiresAt?.toISOString() ?? null,
    leaseUntil: record.leaseUntil?.toISOString() ?? null,
  };
}
