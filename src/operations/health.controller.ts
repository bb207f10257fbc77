import { Controller, Get, VERSION_NEUTRAL } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { AcrossTenants } from '../database/across-tenants.js';
import { ApiProblems } from '../http/api-problems.decorator.js';
import { Problem } from '../http/problem.js';
import { ServiceUnavailable } from '../http/problems.js';
import { Drain } from './drain.js';

const Ok = (description: string) =>
  ApiOkResponse({
    description,
    schema: {
      type: 'object',
      required: ['status'],
      properties: { status: { type: 'string', enum: ['ok'] } },
      example: { status: 'ok' },
    },
  });

/** For whoever starts, stops and routes to this process. */
@ApiTags('Health')
@Controller({ path: 'health', version: VERSION_NEUTRAL })
export class HealthController {
  constructor(
    private readonly acrossTenants: AcrossTenants,
    private readonly drain: Drain,
  ) {}

  @Get('live')
  @ApiOperation({ operationId: 'getLiveness', summary: 'Tell whether the process runs' })
  @Ok('The process runs')
  live(): { status: string } {
    return { status: 'ok' };
  }

  @Get('ready')
  @ApiOperation({
    operationId: 'getReadiness',
    summary: 'Tell whether the process takes requests',
    description: 'It is not stopping, and its database answers.',
  })
  @Ok('The process takes requests')
  @ApiProblems(ServiceUnavailable)
  async ready(): Promise<{ status: string }> {
    if (this.drain.stopping) {
      throw new Problem(ServiceUnavailable, 'The service is shutting down.', { headers: { 'Retry-After': '1' } });
    }
    await this.acrossTenants.query('SELECT 1');
    return { status: 'ok' };
  }
}
