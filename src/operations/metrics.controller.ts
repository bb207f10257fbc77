import { Controller, Get, Header, VERSION_NEUTRAL } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiProduces, ApiTags } from '@nestjs/swagger';
import { Metrics } from './metrics.js';

/** For Prometheus. */
@ApiTags('Health')
@Controller({ path: 'metrics', version: VERSION_NEUTRAL })
export class MetricsController {
  constructor(private readonly metrics: Metrics) {}

  @Get()
  @Header('Content-Type', 'text/plain; version=0.0.4; charset=utf-8')
  @ApiProduces('text/plain')
  @ApiOperation({
    operationId: 'getMetrics',
    summary: 'Show the metrics of this process',
    description: 'Prometheus text.',
  })
  @ApiOkResponse({ description: 'Metrics', schema: { type: 'string' } })
  show(): Promise<string> {
    return this.metrics.text();
  }
}
