import { Injectable, type OnModuleInit, RequestMethod, StreamableFile } from '@nestjs/common';
import {
  METHOD_METADATA,
  REDIRECT_METADATA,
  RENDER_METADATA,
  RESPONSE_PASSTHROUGH_METADATA,
  ROUTE_ARGS_METADATA,
  RouteParamtypes,
  SSE_METADATA,
} from '@nestjs/common/internal';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { fingerprint } from './fingerprint.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { IDEMPOTENT, type IdempotentOptions } from './idempotent.decorator.js';
import { SAFE_TO_REPEAT } from './safe-to-repeat.decorator.js';

const READING = [RequestMethod.GET, RequestMethod.HEAD, RequestMethod.OPTIONS, RequestMethod.SEARCH];

type Handler = (...args: unknown[]) => unknown;

interface Route {
  readonly name: string;
  readonly controller: new (...args: never[]) => unknown;
  readonly method: string;
  readonly handler: Handler;
  readonly verb: RequestMethod;
}

/** Thrown at start, with everything that is wrong with the routes. */
export class UnsafeRoutesError extends Error {
  override readonly name = 'UnsafeRoutesError';

  constructor(faults: readonly string[]) {
    super(`The service does not start, because requests may arrive more than once:\n- ${faults.join('\n- ')}`);
  }
}

/**
 * Stops the service at boot when a route that changes something does not say how it is safe to repeat, when an idempotent
 * one could not be replayed, or when nothing acts on the decorator. What cannot be seen here (a promise of a stream) fails
 * the request instead.
 */
@Injectable()
export class RepeatSafetyCheck implements OnModuleInit {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
  ) {}

  /** @throws UnsafeRoutesError */
  onModuleInit(): void {
    const routes = this.routes();
    const faults = [
      ...this.interceptorFaults(),
      ...routes.flatMap((route) => [...faultsOf(route)]),
      ...sharedEndpoints(routes),
    ];
    if (faults.length > 0) throw new UnsafeRoutesError(faults);
  }

  /** Without the interceptor the decorator has no effect, and nobody would notice before the first duplicate. */
  private interceptorFaults(): string[] {
    const [outermost] = this.discovery.getProviders().filter(({ subtype }) => subtype === 'interceptor');
    if (outermost?.instance instanceof IdempotencyInterceptor) return [];
    return [
      'The first APP_INTERCEPTOR of the root module must be the IdempotencyInterceptor: keys have no effect else',
    ];
  }

  private routes(): Route[] {
    return this.discovery.getControllers().flatMap(({ metatype }) => {
      const controller = metatype as Route['controller'];
      const prototype = controller.prototype as Record<string, Handler>;
      return this.scanner.getAllMethodNames(prototype).flatMap((method) => {
        const handler = prototype[method]!;
        const verb = Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod | undefined;
        return verb === undefined ? [] : [{ name: `${controller.name}.${method}`, controller, method, handler, verb }];
      });
    });
  }
}

function* faultsOf({ name, controller, method, handler, verb }: Route): Generator<string> {
  const idempotent = Reflect.getMetadata(IDEMPOTENT, handler) as IdempotentOptions | undefined;
  const reads = READING.includes(verb);
  if (!idempotent) {
    if (!reads && !Reflect.hasMetadata(SAFE_TO_REPEAT, handler)) {
      yield `${name} changes something, but does not say how it is safe to repeat: add @Idempotent() or @SafeToRepeat()`;
    }
    return;
  }
  if (reads) yield `${name} only reads, which may be repeated anyway: remove @Idempotent()`;
  const args = Object.keys((Reflect.getMetadata(ROUTE_ARGS_METADATA, controller, method) ?? {}) as object);
  const takes = (type: RouteParamtypes) => args.some((key) => key.startsWith(`${type}:`));
  const passthrough = Reflect.getMetadata(RESPONSE_PASSTHROUGH_METADATA, controller, method) === true;
  if ((takes(RouteParamtypes.RESPONSE) || takes(RouteParamtypes.NEXT)) && !passthrough) {
    yield `${name} sends its answer itself, so it could not be replayed: use @Res({ passthrough: true }) and return it`;
  }
  for (const [metadata, decorator] of [
    [SSE_METADATA, '@Sse()'],
    [REDIRECT_METADATA, '@Redirect()'],
    [RENDER_METADATA, '@Render()'],
  ] as const) {
    if (Reflect.hasMetadata(metadata, handler)) yield `${name} uses ${decorator}, whose answer could not be replayed`;
  }
  const returned = Reflect.getMetadata('design:returntype', controller.prototype as object, method) as unknown;
  if (returned === StreamableFile) yield `${name} returns a stream, which could not be replayed`;
  try {
    fingerprint({ method: '', path: [], query: [], body: {} }, idempotent.fingerprint ?? {});
  } catch (error) {
    yield `${name}: ${(error as Error).message}`;
  }
}

/** Two routes with one endpoint name would answer each other's keys. */
function sharedEndpoints(routes: readonly Route[]): string[] {
  const names = new Map<string, string[]>();
  for (const { name, handler } of routes) {
    const idempotent = Reflect.getMetadata(IDEMPOTENT, handler) as IdempotentOptions | undefined;
    if (idempotent) names.set(idempotent.endpoint, [...(names.get(idempotent.endpoint) ?? []), name]);
  }
  return [...names]
    .filter(([, users]) => users.length > 1)
    .map(([endpoint, users]) => `${users.join(' and ')} share the endpoint name "${endpoint}"`);
}
