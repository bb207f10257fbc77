import { applyDecorators } from '@nestjs/common';
import { ApiHeader, type ApiHeaderOptions, ApiNotModifiedResponse } from '@nestjs/swagger';

type HeaderObject = Omit<ApiHeaderOptions, 'name'>;

const ETAG_PATTERN = '^"\\d+"$';

/** Every header that answers carry, for the components of the OpenAPI document. */
export const RESPONSE_HEADERS = {
  ETag: {
    description: "The resource's version in quotes (RFC 9110, section 8.8.3): a strong entity tag",
    schema: { type: 'string', pattern: ETAG_PATTERN },
    example: '"1"',
  },
  Location: {
    description: 'The path of the resource that was created',
    schema: { type: 'string', format: 'uri-reference' },
    example: '/v1/orders/01a228ef-4efb-7035-9eea-4dd650750e47',
  },
  'Idempotency-Expires': {
    description: 'Until when the answer is kept under its Idempotency-Key; absent where the request had none',
    schema: { type: 'string', format: 'date-time' },
    example: '2026-11-30T20:11:41.698Z',
  },
  'Idempotent-Replayed': {
    description: 'Present when the answer is that of an earlier request with the same Idempotency-Key',
    schema: { type: 'string', enum: ['true'] },
    example: 'true',
  },
  'Retry-After': {
    description: 'Seconds after which to send the same request again',
    schema: { type: 'integer', minimum: 1 },
    example: 1,
  },
  'WWW-Authenticate': {
    description: 'How to log in (RFC 9110, section 11.6.1)',
    schema: { type: 'string', enum: ['Bearer'] },
    example: 'Bearer',
  },
  'X-Request-Id': {
    description: 'What the log calls this request: as sent by the client, or made up',
    schema: { type: 'string' },
    example: '7c0e7f0a-33cd-4c2e-8f0c-0f2f0a0f5d3e',
  },
} satisfies Record<string, HeaderObject>;

export type ResponseHeader = keyof typeof RESPONSE_HEADERS;

/** References to headers of the components, for the `headers` of a response. */
export function headerRefs(...names: readonly ResponseHeader[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

/** The route honours `If-Match` (RFC 9110, section 13.1.1). */
export function ApiIfMatch({ required = false, description }: { required?: boolean; description: string }) {
  return applyDecorators(
    ApiHeader({ name: 'If-Match', required, description, schema: { type: 'string', example: '"1"' } }),
  );
}

/** The route honours `If-None-Match` (RFC 9110, section 13.1.2). */
export function ApiIfNoneMatch(description: string, example: string) {
  return applyDecorators(
    ApiHeader({ name: 'If-None-Match', required: false, description, schema: { type: 'string', example } }),
  );
}

/** A read that spares whoever names the current version the body: 304 (RFC 9110, section 15.4.5). */
export function ApiConditionalRead() {
  return applyDecorators(
    ApiIfNoneMatch('The ETag of the version that is known: where it is current, the answer is 304.', '"1"'),
    ApiNotModifiedResponse({ description: 'The version is known already', headers: headerRefs('ETag') }),
  );
}
