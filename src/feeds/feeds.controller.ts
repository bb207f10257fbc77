import { Body, Controller, Get, HttpCode, Param, Post } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiExtraModels,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
  getSchemaPath,
} from '@nestjs/swagger';
import { ApiProblems } from '../http/api-problems.decorator.js';
import { NotFound, ValidationFailed } from '../http/problems.js';
import { SafeToRepeat } from '../idempotency/safe-to-repeat.decorator.js';
import { CurrentTenant } from '../tenants/current-tenant.decorator.js';
import { FeedBatch } from './dto/feed-batch.js';
import { ACKNOWLEDGEMENT_EXAMPLE, BATCH_EXAMPLES, FEED_EXAMPLE, OPENED_EXAMPLE } from './dto/feed-examples.js';
import { Acknowledgement, FeedView, OpenedEpoch } from './dto/feed-view.js';
import { FeedNameParam } from './feed-name-param.pipe.js';
import { EpochFenced, SequenceGap, SequenceReused } from './feed.problems.js';
import { FeedsService } from './feeds.service.js';

const FeedParam = () =>
  ApiParam({
    name: 'feed',
    description: "The feed's name, which its sender chooses",
    schema: { type: 'string', pattern: '^[a-z0-9-]{1,64}$' },
    example: FEED_EXAMPLE.feed,
  });

@ApiTags('Feeds')
@ApiExtraModels(FeedBatch)
@Controller({ path: 'feeds', version: '1' })
export class FeedsController {
  constructor(private readonly feeds: FeedsService) {}

  @Post(':feed/epochs')
  @SafeToRepeat('epoch')
  @ApiOperation({
    operationId: 'openFeedEpoch',
    summary: 'Become the sender of a feed',
    description:
      'Opens an epoch, and the feed where there is none. Every older epoch is fenced from now on: what its sender still has under way is refused. A repeat opens another epoch, which costs nothing: send with the one of the last answer.',
  })
  @FeedParam()
  @ApiCreatedResponse({ description: 'Opened', type: OpenedEpoch, example: OPENED_EXAMPLE })
  @ApiProblems(NotFound)
  open(@CurrentTenant() tenantId: string, @Param('feed', FeedNameParam) feed: string): Promise<OpenedEpoch> {
    return this.feeds.open(tenantId, feed);
  }

  @Post(':feed/records')
  @SafeToRepeat('sequence')
  @HttpCode(200)
  @ApiOperation({
    operationId: 'sendFeedRecords',
    summary: 'Send numbered records',
    description:
      'Each record is a new order with a number: the first record has `firstSequence`, the others those behind it. A batch applies whole or not at all and may overlap what was sent before; numbers at or below the last one are acknowledged, not applied again. The numbers go on across epochs. At most 5 MB.',
  })
  @FeedParam()
  @ApiBody({ schema: { $ref: getSchemaPath(FeedBatch) }, required: true, examples: BATCH_EXAMPLES })
  @ApiOkResponse({
    description: 'All of them are taken, now or before',
    type: Acknowledgement,
    example: ACKNOWLEDGEMENT_EXAMPLE,
  })
  @ApiProblems(
    ValidationFailed,
    NotFound,
    [SequenceGap, { expectedSequence: 501 }],
    [EpochFenced, { currentEpoch: 2 }],
    [SequenceReused, { sequence: 17 }],
  )
  append(
    @CurrentTenant() tenantId: string,
    @Param('feed', FeedNameParam) feed: string,
    @Body() batch: FeedBatch,
  ): Promise<Acknowledgement> {
    return this.feeds.append(tenantId, feed, batch);
  }

  @Get(':feed')
  @ApiOperation({ operationId: 'getFeed', summary: 'Read how far a feed has come' })
  @FeedParam()
  @ApiOkResponse({ description: 'The feed', type: FeedView, example: FEED_EXAMPLE })
  @ApiProblems(NotFound)
  read(@CurrentTenant() tenantId: string, @Param('feed', FeedNameParam) feed: string): Promise<FeedView> {
    return this.feeds.read(tenantId, feed);
  }
}
