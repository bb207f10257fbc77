import { json, Refusal, type Reply } from '../reply.js';

/** https://docs.stripe.com/api/errors */
export interface StripeErrorBody {
  readonly type: 'api_error' | 'card_error' | 'idempotency_error' | 'invalid_request_error';
  readonly message: string;
  readonly code?: string;
  readonly decline_code?: string;
  readonly param?: string;
  readonly charge?: string;
  readonly payment_intent?: object;
  readonly payment_method?: object;
}

/** How Stripe refuses. */
export class StripeRefusal extends Refusal {
  constructor(status: number, error: StripeErrorBody) {
    super(stripeError(status, error));
  }
}

export function stripeError(status: number, error: StripeErrorBody): Reply {
  const documented = error.code !== undefined && {
    doc_url: `https://stripe.com/docs/error-codes/${dashed(error.code)}`,
  };
  return json(status, { error: { ...documented, ...error } });
}

/** A parameter that cannot be used. */
export function badParameter(param: string, message: string, code?: string): StripeRefusal {
  return new StripeRefusal(400, { type: 'invalid_request_error', message, param, ...(code !== undefined && { code }) });
}

/** @param status 404 where the id stands in the path, 400 where it is a parameter */
export function noSuch(kind: string, id: string, param: string, status: 400 | 404): StripeRefusal {
  return new StripeRefusal(status, {
    type: 'invalid_request_error',
    code: 'resource_missing',
    message: `No such ${kind}: '${id}'`,
    param,
  });
}

function dashed(code: string): string {
  return code.replaceAll('_', '-');
}
