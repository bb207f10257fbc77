import {
  Body,
  type CallHandler,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Header,
  HttpCode,
  Injectable,
  type NestInterceptor,
  Patch,
  Post,
  Res,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import { UnitOfWork } from '../../src/database/unit-of-work.js';
import { Idempotent } from '../../src/idempotency/idempotent.decorator.js';
import { Outbox } from '../../src/messaging/outbox.js';
import { NewOrder } from '../../src/orders/dto/new-order.js';
import type { Order } from '../../src/orders/order.entity.js';
import { OrdersService } from '../../src/orders/orders.service.js';
import { CurrentTenant } from '../../src/tenants/current-tenant.decorator.js';
import { newOrder } from './api-client.js';
import { TestApp, type TestParts } from './test-app.js';

/** A point in a handler that nobody passes before the test says so. */
export class Gate {
  /** Resolves when somebody stands before it. */
  readonly reached: Promise<void>;
  private readonly opened: Promise<void>;
  private arrive!: () => void;
  private release!: () => void;

  constructor() {
    this.reached = new Promise((resolve) => (this.arrive = resolve));
    this.opened = new Promise((resolve) => (this.release = resolve));
  }

  pass(): Promise<void> {
    this.arrive();
    return this.opened;
  }

  open(): void {
    this.release();
  }
}

/** What a handler of the test's own routes is given. */
export interface Call {
  readonly tenantId: string;
  readonly body: unknown;
  readonly response: Response;
  /** The how manieth call it is, from 1. */
  readonly number: number;
}

/** What the test's own routes do, and how often they did it. */
@Injectable()
export class TestRoutes {
  /** Calls of a handler. */
  calls = 0;
  /** Requests that have come as far as the key: each of these leads, waits or is answered already. */
  arrivals = 0;
  /** What every one of the routes does. */
  work: (call: Call) => unknown = () => ({});
  /** What the interceptor of `POST /v1/test/wrapped` makes of it. */
  wrap: (result: Observable<unknown>) => Observable<unknown> = (result) => result;

  constructor(
    private readonly orders: OrdersService,
    readonly unitOfWork: UnitOfWork,
  ) {}

  reset(): void {
    this.calls = 0;
    this.arrivals = 0;
    this.work = () => ({});
    this.wrap = (result) => result;
  }

  call(tenantId: string, body: unknown, response: Response): unknown {
    this.calls += 1;
    return this.work({ tenantId, body, response, number: this.calls });
  }

  /** One order and one event, in the unit of work at hand. */
  createOrder(tenantId: string, different: Record<string, unknown> = {}): Promise<Order> {
    return this.orders.create(tenantId, Object.assign(new NewOrder(), newOrder(different)));
  }

  /** One statement in the unit of work at hand. */
  query(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    return this.unitOfWork.transaction.query(text, values);
  }
}

@Injectable()
class CountArrivals implements CanActivate {
  constructor(private readonly routes: TestRoutes) {}

  canActivate(): boolean {
    this.routes.arrivals += 1;
    return true;
  }
}

@Injectable()
class Wrap implements NestInterceptor {
  constructor(private readonly routes: TestRoutes) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return this.routes.wrap(next.handle());
  }
}

@Controller({ path: 'test', version: '1' })
@UseGuards(CountArrivals)
class TestController {
  constructor(private readonly routes: TestRoutes) {}

  @Post('work')
  @Idempotent({ endpoint: 'test.work' })
  work(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('other')
  @Idempotent({ endpoint: 'test.other' })
  other(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('items/:itemId')
  @Idempotent({ endpoint: 'test.items' })
  items(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('names/:name')
  @Idempotent({ endpoint: 'test.names' })
  names(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('files/*path')
  @Idempotent({ endpoint: 'test.files' })
  files(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('ranges/:from-:to')
  @Idempotent({ endpoint: 'test.ranges' })
  ranges(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('steps{/:step}')
  @Idempotent({ endpoint: 'test.steps' })
  steps(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('wrapped')
  @UseInterceptors(Wrap)
  @Idempotent({ endpoint: 'test.wrapped' })
  wrapped(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Patch('optional')
  @Idempotent({ endpoint: 'test.optional', key: 'optional' })
  optional(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('accepted')
  @HttpCode(202)
  @Idempotent({ endpoint: 'test.accepted' })
  accepted(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('no-content')
  @HttpCode(204)
  @Idempotent({ endpoint: 'test.no-content' })
  noContent(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }

  @Post('csv')
  @Header('Content-Type', 'text/csv; charset=utf-8')
  @Idempotent({ endpoint: 'test.csv' })
  csv(@CurrentTenant() tenantId: string, @Body() body: unknown, @Res({ passthrough: true }) response: Response) {
    return this.routes.call(tenantId, body, response);
  }
}

/** The service with routes whose handlers a test writes: `POST /v1/test/work` and its like. */
export async function startWithTestRoutes(
  environment: Record<string, string> = {},
  parts: Pick<TestParts, 'database' | 'databaseUrl'> = {},
): Promise<{ service: TestApp; routes: TestRoutes }> {
  const service = await TestApp.start(environment, {
    ...parts,
    controllers: [TestController],
    providers: [OrdersService, Outbox, TestRoutes],
  });
  return { service, routes: service.app.get(TestRoutes) };
}
