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
import { DuplicateExternalRef, PaymentInProgress } from '../orders/order.problems.js';
import { CurrentTenant } from '../tenants/current-tenant.decorator.js';
import { NewRefund } from './dto/new-refund.js';
import { NEW_REFUND_EXAMPLES, REFUND_EXAMPLE } from './dto/payment-examples.js';
import { RefundPage, RefundView, refundView } from './dto/refund-view.js';
import { PaymentDeclined, PaymentFailed, PaymentOutcomeUnknown, RefundExceedsPayment } from './payment.problems.js';
import { REFUNDS_ENDPOINT } from './reconciliation.js';
import { RefundsService } from './refunds.service.js';

const { id: REFUND_ID, paymentId: PAYMENT_ID } = REFUND_EXAMPLE;
const PaymentIdParam = () => ApiId("The payment's id", PAYMENT_ID);

@ApiTags('Payments')
@ApiExtraModels(NewRefund)
@Controller({ version: '1' })
export class RefundsController {
  constructor(private readonly refunds: RefundsService) {}

  @Post('payments/:id/refunds')
  @ApiOperation({
    operationId: 'refundPayment',
    summary: 'Give money of a payment back',
    description:
      'All that is left when `amount` is left out, fixed at the first attempt. Safe to repeat under its Idempotency-Key; send a `reference` as well: it protects even after the key has expired.',
  })
  @Idempotent({ endpoint: REFUNDS_ENDPOINT, mode: 'leased' })
  @PaymentIdParam()
  @ApiBody({ schema: { $ref: getSchemaPath(NewRefund) }, required: true, examples: NEW_REFUND_EXAMPLES })
  @ApiCreatedResponse({
    description: 'Given back, or on its way',
    type: RefundView,
    example: REFUND_EXAMPLE,
    headers: headerRefs('ETag', 'Location'),
  })
  @ApiProblems(
    ValidationFailed,
    NotFound,
    [PaymentDeclined, { declineCode: 'charge_already_refunded', paymentId: PAYMENT_ID, refundId: REFUND_ID }],
    [PaymentFailed, { paymentId: PAYMENT_ID, refundId: REFUND_ID }],
    [DuplicateExternalRef, { refundId: REFUND_ID }],
    [PaymentInProgress, { paymentId: PAYMENT_ID }],
    [RefundExceedsPayment, { paymentId: PAYMENT_ID, refundable: 1250 }],
    PaymentOutcomeUnknown,
  )
  refund(
    @CurrentOperation() operation: Operation,
    @Param('id', UuidParam) paymentId: string,
    @Body() refund: NewRefund,
  ): Promise<Completion> {
    return this.refunds.refund(operation, paymentId, refund);
  }

  @Get('payments/:id/refunds')
  @ApiOperation({ operationId: 'listRefunds', summary: 'List the refunds of a payment', description: 'Oldest first.' })
  @PaymentIdParam()
  @ApiOkResponse({
    description: 'A page of refunds',
    type: RefundPage,
    example: { data: [REFUND_EXAMPLE], nextCursor: null },
  })
  @ApiProblems(ValidationFailed, NotFound)
  async list(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) paymentId: string,
    @Query() query: PageQuery,
  ): Promise<RefundPage> {
    const limit = limitOf(query);
    return pageByTime(
      await this.refunds.list(tenantId, paymentId, timePositionOf(query), limit + 1),
      limit,
      refundView,
    );
  }

  @Get('refunds/:id')
  @ApiOperation({ operationId: 'getRefund', summary: 'Read a refund' })
  @ApiId("The refund's id", REFUND_ID)
  @ApiConditionalRead()
  @ApiOkResponse({ description: 'The refund', type: RefundView, example: REFUND_EXAMPLE, headers: headerRefs('ETag') })
  @ApiProblems(NotFound)
  async read(
    @CurrentTenant() tenantId: string,
    @Param('id', UuidParam) id: string,
    @RequestConditions() conditions: Conditions,
    @Res({ passthrough: true }) response: Response,
  ): Promise<RefundView | undefined> {
    const refund = await this.refunds.read(tenantId, id);
    response.set('ETag', etagOf(refund.version));
    if (!conditions.isKnown(refund.version)) return refundView(refund);
    response.status(304);
    return undefined;
  }
}
