import { ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn } from 'class-validator';
import { PageQuery } from '../../http/page-query.js';
import { Optional } from '../../http/request-model.js';
import { ORDER_STATUSES, type OrderStatus } from '../order.entity.js';
import { IsExternalRef } from './external-ref.js';

export class OrderQuery extends PageQuery {
  @ApiPropertyOptional({ enum: ORDER_STATUSES, description: 'Only orders in this status' })
  @Optional()
  @IsIn(ORDER_STATUSES, { message: `status must be one of ${ORDER_STATUSES.join(', ')}` })
  status?: OrderStatus;

  @ApiPropertyOptional({ minLength: 1, maxLength: 255, description: 'Only the order of this reference' })
  @Optional()
  @IsExternalRef()
  externalRef?: string;
}
