import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { ArrayMaxSize, ArrayMinSize, IsIn } from 'class-validator';
import { ListOf, Optional } from '../../http/request-model.js';
import { NewOrderItem } from './new-order.js';
import { IsStringMap } from './string-map.js';

/** Each member that is given replaces the present one whole. */
export class OrderChanges {
  @ApiPropertyOptional({ type: [NewOrderItem], minItems: 1, maxItems: 100 })
  @Optional()
  @ListOf(() => NewOrderItem)
  @ArrayMinSize(1)
  @ArrayMaxSize(100)
  items?: NewOrderItem[];

  @ApiPropertyOptional({
    type: Object,
    additionalProperties: { type: 'string' },
    maxProperties: 50,
    description: 'At most 50 members',
  })
  @Optional()
  @IsStringMap(50)
  metadata?: Record<string, string>;
}

export class StatusAssignment {
  @ApiProperty({ enum: ['cancelled'], example: 'cancelled' })
  @IsIn(['cancelled'], { message: 'status must be cancelled' })
  status!: 'cancelled';
}
