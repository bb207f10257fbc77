import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Put, Query, Res } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiExtraModels,
  ApiNoContentResponse,
  ApiOkResponse,
  ApiOperation,
  ApiParam,
  ApiTags,
  getSchemaPath,
} from '@nestjs/swagger';
import type { Response } from 'express';
import { ApiConditionalRead, ApiIfMatch, ApiIfNoneMatch, headerRefs } from '../http/api-headers.decorator.js';
import { ApiId } from '../http/api-id.decorator.js';
import { ApiProblems, type DocumentedProblem } from '../http/api-problems.decorator.js';
import { type Conditions, RequestConditions } from '../http/conditions.js';
import { limitOf } from '../http/page-query.js';
import { etagOf } from '../http/preconditions.js';
import { NotFound, PreconditionFailed, PreconditionRequired, ValidationFailed } from '../http/problems.js';
import { pageByTime, timePositionOf } from '../http/time-position.js';
import { UuidParam } from '../http/uuid-param.pipe.js';
import { Idempotent } from '../idempotency/idempotent.decorator.js';
import { SafeToRepeat } from '../idempotency/safe-to-repeat.decorator.js';
import { CurrentTenant } from '../tenants/current-tenant.decorator.js';
import { ExternalRefParam } from './external-ref-param.pipe.js';
import { NEW_ORDER_RULES, NewOrder } from './dto/new-order.js';
import { OrderChanges, StatusAssignment } from './dto/order-changes.js';
import { OrderQuery } from './dto/order-query.js';
import { CHANGES_EXAMPLES, NEW_ORDER_EXAMPLES, ORDER_EXAMPLE } from './dto/order-examples.js';
import { OrderPage, OrderView, viewOf } from './dto/order-view.js';
import { DuplicateExternalRef, OrderDeleted, OrderNotEditable, PaymentInProgress } from './order.problems.js';
import { OrdersService, type Written } from './orders.service.js';

const ORDER_ID = ORDER_EXAMPLE.id;
const IdParam = () => ApiId("The order's id", ORDER_ID);
const NewOrderBody = () =>
  ApiBody({ schema: { $ref: getSchemaPath(NewOrder) }, required: true, examples: NEW_ORDER_EXAMPLES });
const Created = () =>
  ApiCreatedResponse({
    description: 'Created',
    type: OrderView,
    example: ORDER_EXAMPLE,
    headers: headerRefs('ETag', 'Location'),
  });
const Shown = (description: string, example: OrderView = ORDER_EXAMPLE) =>
  ApiOkResponse({ description, type: OrderView, example, headers: headerRefs('ETag') });

const IN_PROGRESS: DocumentedProblem = [PaymentInProgress, { paymentId: '01a228f0-1b7c-7d0e-8f64-3c1d8a5b9e02' }];
const LAST_WRITE_WINS = 'The ETag of the version that is meant. Left out: whatever the version.';
const ONLY_IF_ABSENT = '`*`: only where there is no such order yet.';

@ApiTags('Orders')
@ApiExtraModels(NewOrder, OrderChanges, StatusAssignment)
@Controller({ path: 'orders', version: '1' })
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Post()
  @ApiOperation({
    operationId: 'createOrder',
    summary: 'Create an order',
    description:
      'Safe to repeat under its Idempotency-Key. Send an `externalRef` as well: it protects even after the key has expired.',
  })
  @Idempotent({ endpoint: 'orders.create', fingerprint: NEW_ORDER_RULES })
  @NewOrderBody()
  @Created()
  @ApiProblems(ValidationFailed, [DuplicateExternalRef, { orderId: ORDER_ID }])
  async create(
    @CurrentTenant() tenantId: string,
    @Body() order: NewOrder,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView> {
    return show(response, { order: await this.orders.create(tenantId, order), created: true });
  }

  @Get()
  @ApiOperation({
    operationId: 'listOrders',
    summary: 'List orders',
    description: 'Oldest first. Orders that stay unchanged meanwhile come exactly once.',
  })
  @ApiOkResponse({
    description: 'A page of orders',
    type: OrderPage,
    example: { data: [ORDER_EXAMPLE], nextCursor: null },
  })
  @ApiProblems(ValidationFailed)
  async list(@CurrentTenant() tenantId: string, @Query() query: OrderQuery): Promise<OrderPage> {
    const limit = limitOf(query);
    return pageByTime(await this.orders.list(tenantId, query, timePositionOf(query), limit + 1), limit, viewOf);
  }

  @Get(':id')
  @ApiOperation({ operationId: 'getOrder', summary: 'Read an order' })
  @IdParam()
  @ApiConditionalRead()
  @Shown('The order')
  @ApiProblems(NotFound)
  async read(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView | undefined> {
    const order = await this.orders.read(tenantId, id);
    const view = show(response, { order, created: false });
    if (!conditions.isKnown(order.version)) return view;
    response.status(304);
    return undefined;
  }

  @Put('by-external-ref/:externalRef')
  @SafeToRepeat('natural-key')
  @ApiOperation({
    operationId: 'putOrderByExternalRef',
    summary: 'Create or replace the order of an external reference',
    description:
      'Where the order has this content already nothing changes. Id and `createdAt` stay when the content is replaced.',
  })
  @ApiParam({
    name: 'externalRef',
    description: "The order's name in your system; a body that names another one is refused",
    schema: { type: 'string', minLength: 1, maxLength: 255 },
    example: ORDER_EXAMPLE.externalRef,
  })
  @ApiIfMatch({ description: LAST_WRITE_WINS })
  @ApiIfNoneMatch(ONLY_IF_ABSENT, '*')
  @NewOrderBody()
  @Shown('Replaced, or unchanged')
  @Created()
  @ApiProblems(ValidationFailed, [OrderNotEditable, { orderId: ORDER_ID }], IN_PROGRESS, PreconditionFailed)
  async putByExternalRef(
    @CurrentTenant() tenantId: string,
    @Param('externalRef', ExternalRefParam) externalRef: string,
    @Body() order: NewOrder,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView> {
    ExternalRefParam.refuseOther(externalRef, order);
    return show(response, await this.orders.putByRef(tenantId, externalRef, order, conditions));
  }

  @Put(':id')
  @SafeToRepeat('client-chosen-id')
  @ApiOperation({
    operationId: 'putOrder',
    summary: 'Create an order under an id of your choice, or replace its content',
    description: 'Where the order has this content already nothing changes. Other content needs If-Match.',
  })
  @IdParam()
  @ApiIfMatch({ description: 'The ETag of the version to replace; needed to change an order that exists.' })
  @ApiIfNoneMatch(ONLY_IF_ABSENT, '*')
  @NewOrderBody()
  @Shown('Replaced, or unchanged')
  @Created()
  @ApiProblems(
    ValidationFailed,
    NotFound,
    [DuplicateExternalRef, { orderId: ORDER_ID }],
    [OrderNotEditable, { orderId: ORDER_ID }],
    IN_PROGRESS,
    OrderDeleted,
    PreconditionFailed,
    PreconditionRequired,
  )
  async put(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @Body() order: NewOrder,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView> {
    return show(response, await this.orders.put(tenantId, id, order, conditions));
  }

  @Patch(':id')
  @ApiOperation({
    operationId: 'updateOrder',
    summary: 'Change an order',
    description: 'Each member that is given replaces the present one whole.',
  })
  @Idempotent({ endpoint: 'orders.update', key: 'optional', fingerprint: { defaults: { 'items[].quantity': 1 } } })
  @IdParam()
  @ApiIfMatch({ required: true, description: 'The ETag of the version that the change is meant for.' })
  @ApiBody({ schema: { $ref: getSchemaPath(OrderChanges) }, required: true, examples: CHANGES_EXAMPLES })
  @Shown('Changed, or unchanged')
  @ApiProblems(
    ValidationFailed,
    NotFound,
    [OrderNotEditable, { orderId: ORDER_ID }],
    IN_PROGRESS,
    PreconditionFailed,
    PreconditionRequired,
  )
  async change(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @Body() changes: OrderChanges,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView> {
    return show(response, { order: await this.orders.change(tenantId, id, changes, conditions), created: false });
  }

  @Put(':id/status')
  @SafeToRepeat('absolute-state')
  @ApiOperation({
    operationId: 'setOrderStatus',
    summary: 'Cancel an order',
    description: 'The status is assigned: where the order is cancelled already nothing changes.',
  })
  @IdParam()
  @ApiIfMatch({ description: LAST_WRITE_WINS })
  @ApiBody({
    schema: { $ref: getSchemaPath(StatusAssignment) },
    required: true,
    examples: { cancelled: { value: { status: 'cancelled' } } },
  })
  @Shown('The order, cancelled', { ...ORDER_EXAMPLE, status: 'cancelled', version: 2 })
  @ApiProblems(ValidationFailed, NotFound, [OrderNotEditable, { orderId: ORDER_ID }], IN_PROGRESS, PreconditionFailed)
  async assignStatus(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @Body() _assignment: StatusAssignment,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView> {
    return show(response, { order: await this.orders.cancel(tenantId, id, conditions), created: false });
  }

  @Delete(':id')
  @SafeToRepeat('same-effect')
  @HttpCode(204)
  @ApiOperation({
    operationId: 'deleteOrder',
    summary: 'Delete an order',
    description: 'One without any payment. Its id stays spent, its `externalRef` becomes free.',
  })
  @IdParam()
  @ApiIfMatch({ description: LAST_WRITE_WINS })
  @ApiNoContentResponse({ description: 'Deleted' })
  @ApiProblems(NotFound, [OrderNotEditable, { orderId: ORDER_ID }], PreconditionFailed)
  async delete(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @RequestConditions() conditions: Conditions,
  ): Promise<void> {
    await this.orders.delete(tenantId, id, conditions);
  }
}

function show(response: Response, { order, created }: Written): OrderView {
  response.set('ETag', etagOf(order.version));
  if (created) response.status(201).set('Location', `/v1/orders/${order.id}`);
  return viewOf(order);
}
