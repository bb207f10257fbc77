import type { BankApi } from './bank/bank-api.js';
import type { Controls } from './controls.js';
import { json, PlainRefusal, type Reply, type SandboxRequest } from './reply.js';
import type { StripeApi } from './stripe/stripe-api.js';
import { stripeError } from './stripe/stripe-refusal.js';

/** What `GET /sandbox/health` answers, so that a sandbox knows another one from whatever else listens on a port. */
export const IDENTITY = { sandbox: 'idempotent-orders' } as const;

type Handler = (request: SandboxRequest, id: string) => Promise<Reply>;

/** Everything the sandbox answers, by method and path; `*` is an id. */
export function routesOf(stripe: StripeApi, bank: BankApi, controls: Controls): ReadonlyMap<string, Handler> {
  return new Map<string, Handler>([
    ['POST /v1/payment_intents', (request) => stripe.createPaymentIntent(request)],
    ['GET /v1/payment_intents', (request) => stripe.listPaymentIntents(request)],
    ['GET /v1/payment_intents/*', (request, id) => stripe.retrievePaymentIntent(request, id)],
    ['POST /v1/refunds', (request) => stripe.createRefund(request)],
    ['GET /v1/refunds', (request) => stripe.listRefunds(request)],
    ['GET /v1/refunds/*', (request, id) => stripe.retrieveRefund(request, id)],
    ['GET /v1/charges/*', (request, id) => stripe.retrieveCharge(request, id)],
    ['POST /bank/transfers', (request) => bank.createTransfer(request)],
    ['GET /bank/transfers', (request) => bank.findTransfers(request)],
    ['GET /sandbox/health', async () => json(200, IDENTITY)],
    ['GET /sandbox/effects', () => controls.effects()],
    ['POST /sandbox/faults', (request) => controls.armFault(request)],
    ['DELETE /sandbox/faults', () => controls.clearFaults()],
    ['POST /sandbox/webhooks', (request) => controls.pauseWebhooks(request)],
    ['POST /sandbox/webhooks/redeliver', (request) => controls.redeliver(request)],
    ['POST /sandbox/refunds/*/fail', (_request, id) => controls.settleRefund(id, 'failed')],
    ['POST /sandbox/refunds/*/succeed', (_request, id) => controls.settleRefund(id, 'succeeded')],
    ['POST /sandbox/payment_intents/*/refund', (request, id) => controls.refundByHand(id, request)],
  ]);
}

export function route(routes: ReadonlyMap<string, Handler>, request: SandboxRequest): Promise<Reply> {
  const [, area, kind, id, action] = request.path.split('/');
  const exact = routes.get(`${request.method} ${request.path}`);
  if (exact) return exact(request, '');
  const action_ = action === undefined ? '' : `/${action}`;
  const handler = id && routes.get(`${request.method} /${area}/${kind}/*${action_}`);
  const whole = `/${area}/${kind}/${id}${action_}` === request.path;
  if (handler && whole) return handler(request, decoded(id));
  return Promise.resolve(notFound(request, area));
}

/** An id that cannot be decoded or kept by Postgres names nothing, like any other that is wrong. */
function decoded(id: string): string {
  try {
    return decodeURIComponent(id).replaceAll('\0', '?');
  } catch {
    return id;
  }
}

function notFound({ method, path }: SandboxRequest, area: string | undefined): Reply {
  const message = `Unrecognized request URL (${method}: ${path}).`;
  if (area === 'v1') return stripeError(404, { type: 'invalid_request_error', message });
  return new PlainRefusal(404, 'not_found', message).reply;
}
