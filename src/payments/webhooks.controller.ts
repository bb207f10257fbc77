import { Controller, Headers, HttpCode, Logger, Post, RawBody } from '@nestjs/common';
import { ApiBody, ApiHeader, ApiNoContentResponse, ApiOperation, ApiTags } from '@nestjs/swagger';
import { UnitOfWork } from '../database/unit-of-work.js';
import { ApiProblems } from '../http/api-problems.decorator.js';
import { Problem } from '../http/problem.js';
import { PayloadTooLarge, ServiceUnavailable } from '../http/problems.js';
import { SafeToRepeat } from '../idempotency/safe-to-repeat.decorator.js';
import { Inbox } from '../messaging/inbox.js';
import { BadSignature } from './payment.problems.js';
import { StillOpenError } from './provider-course.js';
import { ProviderFacts } from './provider-facts.js';
import { LookUpFailedError, type ProviderFact, type ProviderNotice } from './providers/payment-provider.js';
import { BadSignatureError, StripeWebhooks } from './providers/stripe-webhook.js';

const CONSUMER = 'stripe-webhooks';

/**
 * What Stripe tells by itself. It tells at least once, in any order, and may be faster than the reply to the call: each
 * event is applied once, in the transaction that remembers it, and applying is a compare-and-set that knows "already
 * there".
 */
@ApiTags('Webhooks')
@Controller({ path: 'webhooks', version: '1' })
export class WebhooksController {
  private readonly logger = new Logger(WebhooksController.name);

  constructor(
    private readonly webhooks: StripeWebhooks,
    private readonly unitOfWork: UnitOfWork,
    private readonly inbox: Inbox,
    private readonly facts: ProviderFacts,
  ) {}

  @Post('stripe')
  @SafeToRepeat('inbox')
  @HttpCode(204)
  @ApiOperation({
    operationId: 'receiveStripeEvent',
    summary: 'Receive an event of Stripe',
    description:
      'Authenticated by its signature over the raw bytes. An event is applied once, by its id; repeated ones and ones that concern nothing here are acknowledged. 5xx asks for it again.',
  })
  @ApiHeader({
    name: 'Stripe-Signature',
    required: true,
    schema: { type: 'string', example: 't=1764446400,v1=5257a8…' },
  })
  @ApiBody({ schema: { type: 'object', description: 'An event of Stripe' }, required: true })
  @ApiNoContentResponse({ description: 'Applied, applied before, or of no concern' })
  @ApiProblems(BadSignature, PayloadTooLarge)
  async receive(@RawBody() raw: Buffer | undefined, @Headers('stripe-signature') signature?: string): Promise<void> {
    const bytes = raw ?? Buffer.alloc(0);
    const notice = await this.webhooks.read(bytes, signature).catch(refusal);
    const ours = notice.facts.filter((fact) => ProviderFacts.isOurs(fact));
    for (const tenantId of new Set(ours.map((fact) => fact.tenantId))) {
      const facts = ours.filter((fact) => fact.tenantId === tenantId);
      await this.apply(tenantId, notice, bytes, facts).catch(refusal);
    }
  }

  private apply(
    tenantId: string,
    notice: ProviderNotice,
    bytes: Buffer,
    facts: readonly ProviderFact[],
  ): Promise<void> {
    const { messageId, type } = notice;
    return this.unitOfWork.run(tenantId, async (transaction) => {
      if (!(await this.inbox.accept(transaction, { consumer: CONSUMER, messageId, bytes }))) {
        this.logger.debug(`webhook_repeated: ${type} ${messageId}`);
        return;
      }
      for (const fact of facts) await this.facts.apply(transaction, fact);
    });
  }
}

function refusal(error: unknown): never {
  if (error instanceof BadSignatureError) throw new Problem(BadSignature, error.message);
  if (error instanceof LookUpFailedError || error instanceof StillOpenError) {
    const missing =
      error instanceof LookUpFailedError ? 'It could not be found out whose event this is' : error.message;
    throw new Problem(ServiceUnavailable, `${missing}. Send it again.`, {
      headers: { 'Retry-After': '5' },
      cause: error,
    });
  }
  throw error;
}
