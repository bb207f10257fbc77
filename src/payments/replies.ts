import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import { etagOf } from '../http/preconditions.js';
import { ProblemRenderer } from '../http/problem-renderer.js';
import type { StoredResponse } from '../idempotency/key-record.js';
import { paymentView } from './dto/payment-view.js';
import { refundView } from './dto/refund-view.js';
import type { Payment } from './payment.entity.js';
import { PaymentDeclined, PaymentFailed } from './payment.problems.js';
import { StillOpenError } from './provider-course.js';
import type { Refund } from './refund.entity.js';

/** The answers of the routes that move money, the same whether a request or the reconciler completes the operation. */
@Injectable()
export class Replies {
  constructor(private readonly renderer: ProblemRenderer) {}

  /** @throws StillOpenError while the payment is pending */
  toPayment(payment: Payment): StoredResponse {
    const { id, orderId, status } = payment;
    if (status === 'pending') throw new StillOpenError('the provider has not decided');
    if (status === 'succeeded') return created(`/v1/payments/${id}`, payment.version, paymentView(payment));
    return this.renderer.render(refusal(payment), `/v1/orders/${orderId}/payments`);
  }

  /**
   * A refund that the provider has taken on is an answer, although the money may still be on its way.
   *
   * @param code the provider's, where it refused
   * @throws StillOpenError while nothing is known of it
   */
  toRefund(refund: Refund, code?: string): StoredResponse {
    const { id, paymentId, status, providerRef } = refund;
    if (status === 'pending' && providerRef === null) throw new StillOpenError('the provider has not decided');
    if (status !== 'failed') return created(`/v1/refunds/${id}`, refund.version, refundView(refund));
    const refused = code !== undefined || providerRef !== null;
    const members = { paymentId, refundId: id };
    const problem = refused
      ? new Problem(PaymentDeclined, 'The provider refused the refund.', {
          members: { declineCode: code ?? 'refund_failed', ...members },
        })
      : new Problem(PaymentFailed, 'There is no trace of the refund at the provider.', { members });
    return this.renderer.render(problem, `/v1/payments/${paymentId}/refunds`);
  }
}

function refusal({ id: paymentId, status, declineCode }: Payment): Problem {
  if (status === 'declined') {
    const members = { declineCode, paymentId };
    return new Problem(PaymentDeclined, `The payment was declined: ${declineCode}.`, { members });
  }
  return new Problem(PaymentFailed, 'There is no trace of the payment at the provider.', { members: { paymentId } });
}

function created(location: string, version: number, view: object): StoredResponse {
  return {
    status: 201,
    headers: { 'Content-Type': 'application/json; charset=utf-8', Location: location, ETag: etagOf(version) },
    body: Buffer.from(JSON.stringify(view)),
  };
}
