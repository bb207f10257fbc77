import { Body, Controller, Delete, Get, HttpCode, Param, Patch, Post, Put, Query, Res } from '@nestjs/common';
import { ApiCreatedResponse, ApiNoContentResponse, ApiOkResponse } from '@nestjs/swagger';
import type { Response } from 'express';
import { type Conditions, RequestConditions } from '../http/conditions.js';
import { foreignCursor, limitOf, positionOf } from '../http/page-query.js';
import { encodeCursor } from '../http/pagination.js';
import { etagOf } from '../http/preconditions.js';
import { UuidParam } from '../http/uuid-param.pipe.js';
import { Idempotent } from '../idempotency/idempotent.decorator.js';
import { SafeToRepeat } from '../idempotency/safe-to-repeat.decorator.js';
import { CurrentTenant } from '../tenants/current-tenant.decorator.js';
import { ExternalRefParam } from './external-ref-param.pipe.js';
import { NewOrder } from './dto/new-order.js';
import { OrderChanges, StatusAssignment } from './dto/order-changes.js';
import { OrderQuery } from './dto/order-query.js';
import { OrderPage, OrderView, viewOf } from './dto/order-view.js';
import { OrdersService, type Written } from './orders.service.js';

@Controller({ path: 'orders', version: '1' })
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  /** Creates an order. */
  @Post()
  @Idempotent({
    endpoint: 'orders.create',
    fingerprint: { defaults: { 'items[].quantity': 1, metadata: {} }, volatile: ['clientContext'] },
  })
  @ApiCreatedResponse({ type: OrderView })
  async create(
    @CurrentTenant() tenantId: string,
    @Body() order: NewOrder,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView> {
    return show(response, { order: await this.orders.create(tenantId, order), created: true });
  }

  /** Orders, oldest first. */
  @Get()
  @ApiOkResponse({ type: OrderPage })
  async list(@CurrentTenant() tenantId: string, @Query() query: OrderQuery): Promise<OrderPage> {
    const limit = limitOf(query);
    const orders = await this.orders.list(tenantId, query, afterOf(query), limit + 1);
    const page = orders.slice(0, limit);
    const last = orders.length > limit ? page.at(-1) : undefined;
    return { data: page.map(viewOf), nextCursor: last ? encodeCursor([last.position, last.id]) : null };
  }

  @Get(':id')
  @ApiOkResponse({ type: OrderView })
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

  /** Creates the order of that external reference, or replaces its content. */
  @Put('by-external-ref/:externalRef')
  @SafeToRepeat('natural-key')
  @ApiOkResponse({ type: OrderView })
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

  /** Creates the order under an id of your choice, or replaces its content. */
  @Put(':id')
  @SafeToRepeat('client-chosen-id')
  @ApiOkResponse({ type: OrderView })
  async put(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @Body() order: NewOrder,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView> {
    return show(response, await this.orders.put(tenantId, id, order, conditions));
  }

  /** Replaces the members that are given. */
  @Patch(':id')
  @Idempotent({ endpoint: 'orders.update', key: 'optional', fingerprint: { defaults: { 'items[].quantity': 1 } } })
  @ApiOkResponse({ type: OrderView })
  async change(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @Body() changes: OrderChanges,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<OrderView> {
    return show(response, { order: await this.orders.change(tenantId, id, changes, conditions), created: false });
  }

  /** Assigns the status. */
  @Put(':id/status')
  @SafeToRepeat('absolute-state')
  @ApiOkResponse({ type: OrderView })
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
  @ApiNoContentResponse()
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

function afterOf(query: OrderQuery): { createdAt: string; id: string } | undefined {
  const parts = positionOf(query, 2);
  if (!parts) return undefined;
  const [createdAt, id] = parts as [string, string];
  if (!/^\d{1,16}$/.test(createdAt) || !UuidParam.isUuid(id)) throw foreignCursor();
  return { createdAt, id };
}
