import { ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn, IsString, Length } from 'class-validator';
import { PageQuery } from '../../http/page-query.js';
import { Optional } from '../../http/request-model.js';
import { ORDER_STATUSES, type OrderStatus } from '../order.entity.js';
import { LONGEST_EXTERNAL_REF } from './new-order.js';

export class OrderQuery extends PageQuery {
  @ApiPropertyOptional({ enum: ORDER_STATUSES })
  @Optional()
  @IsIn(ORDER_STATUSES, { message: `status must be one of ${ORDER_STATUSES.join(', ')}` })
  status?: OrderStatus;

  @ApiPropertyOptional({ minLength: 1, maxLength: LONGEST_EXTERNAL_REF })
  @Optional()
  @IsString()
  @Length(1, LONGEST_EXTERNAL_REF)
  externalRef?: string;
}
