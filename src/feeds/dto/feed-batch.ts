import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { ArrayMaxSize, ArrayMinSize, IsInt, Max, Min } from 'class-validator';
import { ListOf, Required } from '../../http/request-model.js';
import { IsExternalRef } from '../../orders/dto/external-ref.js';
import { NewOrder } from '../../orders/dto/new-order.js';

/** A new order that must have an external reference: it is what still tells a repeat when its hash is forgotten. */
@ApiSchema({ name: 'FeedRecord' })
export class FeedRecord extends NewOrder {
  @ApiProperty({
    minLength: 1,
    maxLength: 255,
    required: true, // said, or the inherited rule counts
    example: 'till-7-10042',
    description: "The order's name in your system, unique in your tenant. Where it exists already nothing changes.",
  })
  @Required()
  @IsExternalRef()
  override externalRef!: string;
}

@ApiSchema({ name: 'FeedBatch' })
export class FeedBatch {
  @ApiProperty({
    type: 'integer',
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    example: 1,
    description: 'The epoch that the sender has opened',
  })
  @IsInt()
  @Min(1)
  @Max(Number.MAX_SAFE_INTEGER)
  epoch!: number;

  @ApiProperty({
    type: 'integer',
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    example: 1,
    description: 'The number of the first record; the others have the numbers behind it. A feed begins at 1',
  })
  @IsInt()
  @Min(1)
  @Max(Number.MAX_SAFE_INTEGER)
  firstSequence!: number;

  @ApiProperty({
    type: [FeedRecord],
    minItems: 1,
    maxItems: 500,
    description: 'Applied together or not at all; no `externalRef` twice',
  })
  @ListOf(() => FeedRecord)
  @ArrayMinSize(1)
  @ArrayMaxSize(500)
  records!: FeedRecord[];
}
