import { Module } from '@nestjs/common';
import { OrdersModule } from '../orders/orders.module.js';
import { FeedsController } from './feeds.controller.js';
import { FeedsService } from './feeds.service.js';

@Module({ imports: [OrdersModule], controllers: [FeedsController], providers: [FeedsService] })
export class FeedsModule {}
