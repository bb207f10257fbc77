import { ApiPropertyOptional } from '@nestjs/swagger';
import { IsInt, IsString, Length, Max, Min } from 'class-validator';
import { Optional } from '../../http/request-model.js';

export class NewRefund {
  @ApiPropertyOptional({
    type: 'integer',
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'Minor units; left out: all that is left, fixed at the first attempt',
  })
  @Optional()
  @IsInt()
  @Min(1)
  @Max(Number.MAX_SAFE_INTEGER)
  amount?: number;

  @ApiPropertyOptional({ minLength: 1, maxLength: 500 })
  @Optional()
  @IsString()
  @Length(1, 500)
  reason?: string;

  @ApiPropertyOptional({
    minLength: 1,
    maxLength: 255,
    description:
      "The refund's name in your system, unique for the payment. It protects even after the key has expired.",
  })
  @Optional()
  @IsString()
  @Length(1, 255)
  reference?: string;
}
