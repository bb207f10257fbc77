import { ApiProperty, ApiSchema } from '@nestjs/swagger';

/** A feed as it stands. */
@ApiSchema({ name: 'Feed' })
export class FeedView {
  @ApiProperty({ pattern: '^[a-z0-9-]{1,64}$', example: 'till-7' })
  feed!: string;

  @ApiProperty({ type: 'integer', minimum: 1, example: 2, description: 'The one that may send' })
  epoch!: number;

  @ApiProperty({ type: 'integer', minimum: 0, example: 500, description: 'The last number taken; 0: none yet' })
  lastSequence!: number;
}

@ApiSchema({ name: 'FeedEpoch' })
export class OpenedEpoch {
  @ApiProperty({ pattern: '^[a-z0-9-]{1,64}$', example: 'till-7' })
  feed!: string;

  @ApiProperty({ type: 'integer', minimum: 1, example: 2, description: 'To send with. Every older one is fenced' })
  epoch!: number;

  @ApiProperty({ type: 'integer', minimum: 1, example: 501, description: 'The number of the next new record' })
  nextSequence!: number;
}

@ApiSchema({ name: 'FeedAcknowledgement' })
export class Acknowledgement {
  @ApiProperty({ type: 'integer', minimum: 1, example: 2 })
  epoch!: number;

  @ApiProperty({ type: 'integer', minimum: 1, example: 500, description: "The feed's last number now" })
  lastSequence!: number;

  @ApiProperty({ type: 'integer', minimum: 0, example: 2, description: 'Records that made an order' })
  applied!: number;

  @ApiProperty({
    type: 'integer',
    minimum: 0,
    example: 0,
    description: 'Records that were taken before, or whose external reference was in use',
  })
  duplicates!: number;
}
