import { Module } from '@nestjs/common';
import { Drain } from './drain.js';
import { HealthController } from './health.controller.js';
import { Metrics } from './metrics.js';
import { MetricsController } from './metrics.controller.js';
import { StoredFiguresReader } from './stored-figures.js';

@Module({
  controllers: [HealthController, MetricsController],
  providers: [Drain, Metrics, StoredFiguresReader],
  exports: [Drain],
})
export class OperationsModule {}
