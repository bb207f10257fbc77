import { ApiParam } from '@nestjs/swagger';

/** The route's `:id`, a UUID (RFC 9562). */
export function ApiId(description: string, example: string): MethodDecorator & ClassDecorator {
  return ApiParam({ name: 'id', description, schema: { type: 'string', format: 'uuid' }, example });
}
