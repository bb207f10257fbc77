import { ApiProperty } from '@nestjs/swagger';
import type { LoggedEvent } from './event-log.js';

/** An event as it leaves the service: CloudEvents 1.0, JSON format. */
export class CloudEvent {
  @ApiProperty({ example: '1.0' })
  specversion!: '1.0';

  @ApiProperty({ format: 'uuid' })
  id!: string;

  @ApiProperty({ example: '/v1' })
  source!: '/v1';

  @ApiProperty({ example: 'order.created' })
  type!: string;

  @ApiProperty({ format: 'uuid', description: 'The id of the aggregate' })
  subject!: string;

  @ApiProperty({ format: 'date-time' })
  time!: string;

  @ApiProperty({ example: 'application/json' })
  datacontenttype!: 'application/json';

  @ApiProperty({ example: '1', description: "The aggregate's version; it rises from event to event" })
  aggregateversion!: string;

  @ApiProperty({ type: Object, description: 'The resource as GET shows it at that version' })
  data!: unknown;
}

export function toCloudEvent(event: LoggedEvent): CloudEvent {
  return {
    specversion: '1.0',
    id: event.id,
    source: '/v1',
    type: event.type,
    subject: event.subject,
    time: event.time.toISOString(),
    datacontenttype: 'application/json',
    aggregateversion: String(event.aggregateVersion),
    data: event.data,
  };
}
