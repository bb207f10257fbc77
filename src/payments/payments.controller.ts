import { Body, Controller, Get, Param, Post, Query, Res } from '@nestjs/common';
import {
  ApiBody,
  ApiCreatedResponse,
  ApiExtraModels,
  ApiOkResponse,
  ApiOperation,
  ApiTags,
  getSchemaPath,
} from '@nestjs/swagger';
import type { Response } from 'express';
import { ApiConditionalRead, headerRefs } from '../http/api-headers.decorator.js';
import { ApiId } from '../http/api-id.decorator.js';
import { ApiProblems } from '../http/api-problems.decorator.js';
import { type Conditions, RequestConditions } from '../http/conditions.js';
import { limitOf, PageQuery } from '../http/page-query.js';
import { etagOf } from '../http/preconditions.js';
import { NotFound, ValidationFailed } from '../http/problems.js';
import { pageByTime, timePositionOf } from '../http/time-position.js';
import { UuidParam } from '../http/uuid-param.pipe.js';
import { Idempotent } from '../idempotency/idempotent.decorator.js';
import { type Completion, CurrentOperation, Operation } from '../idempotency/operation.js';
import { PaymentInProgress } from '../orders/order.problems.js';
import { CurrentTenant } from '../tenants/current-tenant.decorator.js';
import { NewPayment } from './dto/new-payment.js';
import { NEW_PAYMENT_EXAMPLES, PAYMENT_EXAMPLE } from './dto/payment-examples.js';
import { PaymentPage, PaymentView, paymentView } from './dto/payment-view.js';
import {
  OrderAlreadyPaid,
  OrderNotPayable,
  PaymentDeclined,
  PaymentFailed,
  PaymentOutcomeUnknown,
} from './payment.problems.js';
import { PaymentsService } from './payments.service.js';
import { PAYMENTS_ENDPOINT } from './reconciliation.js';

const { id: PAYMENT_ID, orderId: ORDER_ID } = PAYMENT_EXAMPLE;
const OrderIdParam = () => ApiId("The order's id", ORDER_ID);

@ApiTags('Payments')
@ApiExtraModels(NewPayment)
@Controller({ version: '1' })
export class PaymentsController {
  constructor(private readonly payments: PaymentsService) {}

  @Post('orders/:id/payments')
  @ApiOperation({
    operationId: 'payOrder',
    summary: 'Pay an order',
    description:
      "Takes the order's total as it is now. Safe to repeat under its Idempotency-Key, whatever was lost: as long as the outcome is unknown the same request asks the provider and goes on, and the money is taken once.",
  })
  @Idempotent({ endpoint: PAYMENTS_ENDPOINT, mode: 'leased' })
  @OrderIdParam()
  @ApiBody({ schema: { $ref: getSchemaPath(NewPayment) }, required: true, examples: NEW_PAYMENT_EXAMPLES })
  @ApiCreatedResponse({
    description: 'Paid',
    type: PaymentView,
    example: PAYMENT_EXAMPLE,
    headers: headerRefs('ETag', 'Location'),
  })
  @ApiProblems(
    ValidationFailed,
    NotFound,
    [PaymentDeclined, { declineCode: 'insufficient_funds', paymentId: PAYMENT_ID }],
    [PaymentFailed, { paymentId: PAYMENT_ID }],
    [OrderAlreadyPaid, { orderId: ORDER_ID }],
    [OrderNotPayable, { orderId: ORDER_ID }],
    [PaymentInProgress, { paymentId: PAYMENT_ID }],
    PaymentOutcomeUnknown,
  )
  pay(
    @CurrentOperation() operation: Operation,
    @Param('id', UuidParam) orderId: string,
    @Body() payment: NewPayment,
  ): Promise<Completion> {
    return this.payments.pay(operation, orderId, payment);
  }

  @Get('orders/:id/payments')
  @ApiOperation({ operationId: 'listPayments', summary: 'List the payments of an order', description: 'Oldest first.' })
  @OrderIdParam()
  @ApiOkResponse({
    description: 'A page of payments',
    type: PaymentPage,
    example: { data: [PAYMENT_EXAMPLE], nextCursor: null },
  })
  @ApiProblems(ValidationFailed, NotFound)
  async list(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) orderId: string,
    @Query() query: PageQuery,
  ): Promise<PaymentPage> {
    const limit = limitOf(query);
    return pageByTime(
      await this.payments.list(tenantId, orderId, timePositionOf(query), limit + 1),
      limit,
      paymentView,
    );
  }

  @Get('payments/:id')
  @ApiOperation({ operationId: 'getPayment', summary: 'Read a payment' })
  @ApiId("The payment's id", PAYMENT_ID)
  @ApiConditionalRead()
  @ApiOkResponse({
    description: 'The payment',
    type: PaymentView,
    example: PAYMENT_EXAMPLE,
    headers: headerRefs('ETag'),
  })
  @ApiProblems(NotFound)
  async read(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<PaymentView | undefined> {
    const payment = await this.payments.read(tenantId, id);
    response.set('ETag', etagOf(payment.version));
    if (!conditions.isKnown(payment.version)) return paymentView(payment);
    response.status(304);
    return undefined;
  }
}
