import { ApiProperty } from '@nestjs/swagger';
import type { LoggedEvent } from './event-log.js';

/** An event as it leaves the service: CloudEvents 1.0, JSON format. */
export class CloudEvent {
  @ApiProperty({ enum: ['1.0'], example: '1.0' })
  specversion!: '1.0';

  @ApiProperty({ format: 'uuid' })
  id!: string;

  @ApiProperty({ enum: ['/v1'], example: '/v1' })
  source!: '/v1';

  @ApiProperty({
    example: 'order.created',
    description: 'order.created, order.updated, order.cancelled or order.deleted; others may come',
  })
  type!: string;

  @ApiProperty({ format: 'uuid', description: 'The id of the aggregate' })
  subject!: string;

  @ApiProperty({ format: 'date-time' })
  time!: string;

  @ApiProperty({ enum: ['application/json'], example: 'application/json' })
  datacontenttype!: 'application/json';

  @ApiProperty({ example: '1', description: "The aggregate's version; it rises from event to event" })
  aggregateversion!: string;

  @ApiProperty({ type: Object, description: 'The resource as GET shows it at that version' })
  data!: unknown;
}

/** What the OpenAPI document shows. */
export const EVENT_EXAMPLE = {
  specversion: '1.0',
  id: '01a228ef-4efc-7a31-8d52-0f6c7a1b9e20',
  source: '/v1',
  type: 'order.created',
  subject: '01a228ef-4efb-7035-9eea-4dd650750e47',
  time: '2026-11-29T20:11:41.698Z',
  datacontenttype: 'application/json',
  aggregateversion: '1',
  data: {
    id: '01a228ef-4efb-7035-9eea-4dd650750e47',
    externalRef: 'web-10042',
    status: 'pending',
    currency: 'EUR',
    items: [{ sku: 'TEA-EARL-GREY', quantity: 2, unitAmount: 1250 }],
    totalAmount: 2500,
    metadata: { channel: 'web' },
    version: 1,
    createdAt: '2026-11-29T20:11:41.698Z',
    updatedAt: '2026-11-29T20:11:41.698Z',
  },
} as const;

export function toCloudEvent(event: Omit<LoggedEvent, 'position'>): CloudEvent {
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
