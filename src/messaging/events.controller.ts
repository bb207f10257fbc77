import { Controller, Get, Query } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiProperty, ApiPropertyOptional, ApiTags } from '@nestjs/swagger';
import { Matches } from 'class-validator';
import { ApiProblems } from '../http/api-problems.decorator.js';
import { foreignCursor, limitOf, PageQuery, positionOf } from '../http/page-query.js';
import { encodeCursor } from '../http/pagination.js';
import { OutcomeUnknown, ValidationFailed } from '../http/problems.js';
import { Optional } from '../http/request-model.js';
import { UUID } from '../http/uuid-param.pipe.js';
import { CurrentTenant } from '../tenants/current-tenant.decorator.js';
import { CloudEvent, EVENT_EXAMPLE, toCloudEvent } from './cloud-event.js';
import { CURSOR, EventLog } from './event-log.js';
import { CursorExpired } from './event.problems.js';

class EventsQuery extends PageQuery {
  @ApiPropertyOptional({ format: 'uuid', description: 'Only the events of this aggregate' })
  @Optional()
  @Matches(UUID, { message: 'subject must be a UUID' })
  subject?: string;
}

class EventPage {
  @ApiProperty({ type: [CloudEvent] })
  data!: CloudEvent[];

  @ApiProperty({ description: 'Where to go on reading; given even when there is nothing more yet' })
  nextCursor!: string;
}

/** The tenant's log of what happened. */
@ApiTags('Events')
@Controller({ path: 'events', version: '1' })
export class EventsController {
  constructor(private readonly log: EventLog) {}

  @Get()
  @ApiOperation({
    operationId: 'listEvents',
    summary: 'Read the log of events',
    description:
      'Events behind the cursor, oldest first, those of one aggregate in the order of their versions. Whoever follows the cursor misses none.',
  })
  @ApiOkResponse({
    description: 'A page of events',
    type: EventPage,
    example: { data: [EVENT_EXAMPLE], nextCursor: encodeCursor(['1']) },
  })
  @ApiProblems(ValidationFailed, CursorExpired, OutcomeUnknown) // to read gives events their places, which is a commit
  async list(@CurrentTenant() tenantId: string, @Query() query: EventsQuery): Promise<EventPage> {
    const [after] = positionOf(query, 1) ?? [];
    if (after !== undefined && !CURSOR.test(after)) throw foreignCursor();
    const { events, cursor } = await this.log.read(tenantId, after, limitOf(query), query.subject?.toLowerCase());
    return { data: events.map(toCloudEvent), nextCursor: encodeCursor([cursor]) };
  }
}
