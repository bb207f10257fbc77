import { Controller, Get, VERSION_NEUTRAL } from '@nestjs/common';
import { ApiOkResponse } from '@nestjs/swagger';
import { AcrossTenants } from '../database/across-tenants.js';
import { Problem } from '../http/problem.js';
import { ServiceUnavailable } from '../http/problems.js';
import { Drain } from './drain.js';

/** For whoever starts, stops and routes to this process. */
@Controller({ path: 'health', version: VERSION_NEUTRAL })
export class HealthController {
  constructor(
    private readonly acrossTenants: AcrossTenants,
    private readonly drain: Drain,
  ) {}

  /** The process runs. */
  @Get('live')
  @ApiOkResponse({ schema: { example: { status: 'ok' } } })
  live(): { status: string } {
    return { status: 'ok' };
  }

  /** The process takes requests: it is not stopping, and its database answers. */
  @Get('ready')
  @ApiOkResponse({ schema: { example: { status: 'ok' } } })
  async ready(): Promise<{ status: string }> {
    if (this.drain.stopping) {
      throw new Problem(ServiceUnavailable, 'The service is shutting down.', { headers: { 'Retry-After': '1' } });
    }
    await this.acrossTenants.query('SELECT 1');
    return { status: 'ok' };
  }
}
