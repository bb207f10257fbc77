import type { INestApplication } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { DocumentBuilder, getSchemaPath, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { headerRefs, RESPONSE_HEADERS, type ResponseHeader } from './http/api-headers.decorator.js';
import { describeProblem, ProblemDocument } from './http/api-problems.decorator.js';
import { findProblemType, type ProblemType } from './http/problem.js';
import {
  InternalError,
  MalformedJson,
  OutcomeUnknown,
  PayloadTooLarge,
  PreconditionFailed,
  ServiceUnavailable,
  Unauthenticated,
  UnsupportedMediaType,
} from './http/problems.js';
import { KeyInUse, KeyReused } from './idempotency/idempotency.problems.js';
import { RateLimited } from './tenants/rate-limit.js';

type PathItem = OpenAPIObject['paths'][string];
type Operation = NonNullable<PathItem['get']> & { 'x-safe-to-repeat'?: { by: string } };
type Parameter = Extract<NonNullable<Operation['parameters']>[number], { name: string }>;
type Answer = Extract<NonNullable<Operation['responses'][string]>, { description: string }>;
type Examples = Record<string, ReturnType<typeof describeProblem>['example']>;
type Schema = Extract<
  NonNullable<NonNullable<OpenAPIObject['components']>['schemas']>[string],
  { properties?: unknown }
>;

const METHODS = ['get', 'put', 'post', 'delete', 'patch'] as const;

const TAGS: Readonly<Record<string, string>> = {
  Orders: 'Orders, each way of writing them safe to repeat: by key, by natural key, by version, by absolute state.',
  Payments: 'Money that moves once, whatever breaks: payments of orders, and refunds.',
  Feeds: 'Orders by the hundred from one sender, which numbers them instead of carrying a key for each.',
  Webhooks: 'What providers tell by themselves.',
  Events: "The tenant's log of what happened, in an order that a reader can follow without missing an event.",
  'Idempotency keys': 'What became of a key.',
  Health: 'For whoever starts, stops and routes to a process.',
  Problems: 'The pages behind the `type` of problem documents.',
};

/** What an answer under a key carries. */
const REPLAY_HEADERS = ['Idempotency-Expires', 'Idempotent-Replayed'] as const;

/** The headers that come with a kind of problem, beside those of every answer. */
const PROBLEM_HEADERS = new Map<string, readonly ResponseHeader[]>([
  [Unauthenticated.code, ['WWW-Authenticate']],
  [PreconditionFailed.code, ['ETag']],
  [KeyInUse.code, ['Retry-After']],
  [KeyReused.code, ['Idempotency-Expires']],
  [RateLimited.code, ['Retry-After']],
  [ServiceUnavailable.code, ['Retry-After']],
  [OutcomeUnknown.code, ['Retry-After']],
]);

/** Serves the document at `/openapi.json` and `/openapi.yaml`, and a page to read and try it at `/docs`. */
export function describeApi(app: NestExpressApplication, retention: number): void {
  SwaggerModule.setup('docs', app, () => apiDocument(app, retention), {
    jsonDocumentUrl: 'openapi.json',
    yamlDocumentUrl: 'openapi.yaml',
  });
}

/**
 * The OpenAPI document, made of the controllers' annotations and of what {@link configureApp} puts before all of them.
 * It depends on nothing of the running process, so that it can be compared with the committed one.
 *
 * @param retention milliseconds for which an answer is kept under its key
 */
export function apiDocument(app: INestApplication, retention: number): OpenAPIObject {
  const builder = new DocumentBuilder()
    .setTitle('Orders and payments')
    .setDescription(describe(retention))
    .setVersion('1')
    .setLicense('MIT', 'https://opensource.org/license/mit')
    .setOpenAPIVersion('3.1.0')
    .addServer('/')
    .addBearerAuth({
      type: 'http',
      scheme: 'bearer',
      bearerFormat: 'API key',
      description: 'An API key, which belongs to one tenant',
    })
    .addSecurityRequirements('bearer');
  for (const [name, description] of Object.entries(TAGS)) builder.addTag(name, description);
  const document = SwaggerModule.createDocument(app, builder.build(), { extraModels: [ProblemDocument] });
  delete document.info.contact; // empty, which says nothing
  document.paths = sorted(document.paths);
  document.components!.schemas = sorted(document.components!.schemas!);
  document.components!.headers = { ...RESPONSE_HEADERS };
  document.components!.parameters = { RequestId: REQUEST_ID };
  const problems: Examples = {};
  for (const [path, item] of Object.entries(document.paths)) {
    for (const method of METHODS) {
      if (item[method]) complete(item[method], path, method, problems);
    }
  }
  document.components!.examples = sorted(problems);
  closeRequestSchemas(document);
  return document;
}

function describe(retention: number): string {
  return [
    `A service on which every request may safely arrive more than once. The answer to a request under an Idempotency-Key is kept for ${retention / 3_600_000} hours from its completion; each keyed answer tells until when in Idempotency-Expires.`,
    'Every error is a problem document (RFC 9457). An address that no route serves is 404 `not-found`; a known one with another method is 405 `method-not-allowed`, with the methods it has in the Allow header. Both are answered before anybody is asked for an API key.',
    'Money is an integer count of minor units, times are RFC 3339 in UTC, ids are UUIDs. Unknown members of a request are refused; an optional member is left out, not null.',
  ].join('\n\n');
}

const REQUEST_ID: Parameter = {
  name: 'X-Request-Id',
  in: 'header',
  required: false,
  description: 'What the log shall call this request; anything else than 1 to 128 of these characters is ignored',
  schema: { type: 'string', pattern: '^[\\w.:+/=-]{1,128}$' },
};

/**
 * Adds what no controller says: the middleware of `configureApp` does it to every route.
 *
 * @param problems where each kind of problem that is met leaves its example, for the components
 */
function complete(operation: Operation, path: string, method: (typeof METHODS)[number], problems: Examples): void {
  if (needsLogin(path)) {
    operation.parameters = [...(operation.parameters ?? []), { $ref: '#/components/parameters/RequestId' }];
  } else {
    operation.security = [];
  }
  const keyed = operation['x-safe-to-repeat']?.by === 'key';
  const shared = sharedProblems(operation, path, method).map(describeProblem);
  const examples = new Map<string, Examples>();
  for (const [status, answer] of Object.entries(operation.responses) as [string, Answer][]) {
    if (Number(status) >= 400) examples.set(status, examplesOf(answer));
    else answer.headers = { ...answer.headers, ...headerRefs(...(keyed ? REPLAY_HEADERS : []), 'X-Request-Id') };
  }
  for (const { type, example } of shared) {
    examples.set(String(type.status), { ...examples.get(String(type.status)), [type.code]: example });
  }
  for (const [status, known] of examples) {
    operation.responses[status] = refusal(known, keyed);
    Object.assign(problems, known);
  }
}

function needsLogin(path: string): boolean {
  return path.startsWith('/v1/') && !path.startsWith('/v1/webhooks/');
}

/** What the middleware refuses, and what any route may end in. */
function sharedProblems({ requestBody }: Operation, path: string, method: string): ProblemType[] {
  return [
    ...(requestBody ? [MalformedJson, PayloadTooLarge, UnsupportedMediaType] : []),
    ...(needsLogin(path) ? [Unauthenticated, RateLimited] : []),
    InternalError,
    ...(path.startsWith('/health/') ? [] : [ServiceUnavailable]), // health is asked for while the service drains, too
    ...(needsLogin(path) && method !== 'get' ? [OutcomeUnknown] : []),
  ];
}

function examplesOf({ content }: Answer): Examples {
  const [media] = Object.values(content ?? {});
  return (media?.examples ?? {}) as Examples;
}

/** One answer for all kinds of problem that have its status. */
function refusal(examples: Examples, keyed: boolean): Answer {
  const codes = Object.keys(examples).sort();
  const stored = keyed && codes.some((code) => findProblemType(code)?.underKey === 'stored');
  const headers = [...codes.flatMap((code) => PROBLEM_HEADERS.get(code) ?? []), ...(stored ? REPLAY_HEADERS : [])];
  return {
    description: codes.map((code) => `\`${code}\`: ${examples[code]!.summary}.`).join('\n\n'),
    headers: headerRefs(...new Set(headers), 'X-Request-Id'),
    content: {
      'application/problem+json': {
        schema: {
          allOf: [
            { $ref: getSchemaPath('Problem') },
            { type: 'object', properties: { code: { type: 'string', enum: codes } } },
          ],
        },
        examples: Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  };
}

function sorted<T>(record: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Requests are refused for members that they do not have. */
function closeRequestSchemas({ paths, components }: OpenAPIObject): void {
  const bodies = Object.values(paths).flatMap((item) => METHODS.map((method) => item[method]?.requestBody ?? {}));
  const open = [...refsIn(bodies)];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const schema = components!.schemas![name] as Schema;
    if (schema.additionalProperties === false) continue;
    schema.additionalProperties = false;
    open.push(...refsIn(schema));
  }
}

function* refsIn(part: unknown): Generator<string> {
  for (const [, name] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/(\w+)"/g)) yield name!;
}
