import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import {
  ArrayMaxSize,
  ArrayMinSize,
  IsInt,
  IsISO4217CurrencyCode,
  IsObject,
  IsString,
  Length,
  Matches,
  Max,
  Min,
} from 'class-validator';
import { ListOf, Optional } from '../../http/request-model.js';
import type { FingerprintRules } from '../../idempotency/fingerprint.js';
import type { OrderItem } from '../order.entity.js';
import { IsExternalRef } from './external-ref.js';
import { IsStringMap } from './string-map.js';

export class NewOrderItem implements OrderItem {
  @ApiProperty({ minLength: 1, maxLength: 100, example: 'TEA-EARL-GREY' })
  @IsString()
  @Length(1, 100)
  sku!: string;

  @ApiPropertyOptional({ type: 'integer', minimum: 1, maximum: Number.MAX_SAFE_INTEGER, default: 1 })
  @IsInt()
  @Min(1)
  @Max(Number.MAX_SAFE_INTEGER)
  quantity: number = 1;

  @ApiProperty({
    type: 'integer',
    minimum: 0,
    maximum: Number.MAX_SAFE_INTEGER,
    example: 1250,
    description: 'Minor units',
  })
  @IsInt()
  @Min(0)
  @Max(Number.MAX_SAFE_INTEGER)
  unitAmount!: number;
}

export class NewOrder {
  @ApiPropertyOptional({
    minLength: 1,
    maxLength: 255,
    example: 'web-10042',
    description: "The order's name in your system, unique in your tenant. It protects even after the key has expired.",
  })
  @Optional()
  @IsExternalRef()
  externalRef?: string;

  @ApiProperty({ description: 'ISO 4217', pattern: '^[A-Z]{3}$', example: 'EUR' })
  @Matches(/^[A-Z]{3}$/, { message: 'currency must be an ISO 4217 code in capital letters' })
  @IsISO4217CurrencyCode({ message: 'currency must be an ISO 4217 code in capital letters' })
  currency!: string;

  @ApiProperty({
    type: [NewOrderItem],
    minItems: 1,
    maxItems: 100,
    description: 'Together worth 1 to 2^53 - 1 minor units',
  })
  @ListOf(() => NewOrderItem)
  @ArrayMinSize(1)
  @ArrayMaxSize(100)
  items!: NewOrderItem[];

  @ApiPropertyOptional({
    type: Object,
    additionalProperties: { type: 'string' },
    maxProperties: 50,
    default: {},
    description: 'At most 50 members',
  })
  @IsStringMap(50)
  metadata: Record<string, string> = {};

  @ApiPropertyOptional({
    type: Object,
    description:
      'A note about this attempt, such as a timestamp: neither stored nor part of what makes a request the same',
  })
  @Optional()
  @IsObject()
  clientContext?: Record<string, unknown>;
}

/** What of a new order does not make another one of it. */
export const NEW_ORDER_RULES: FingerprintRules = {
  defaults: { 'items[].quantity': 1, metadata: {} },
  volatile: ['clientContext'],
};
