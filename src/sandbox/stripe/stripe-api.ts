import type { CreateCall, CreateCalls } from '../create-calls.js';
import { fingerprintOf, type KeyedRequest } from '../idempotency-keys.js';
import type { Operation } from '../faults.js';
import type { Reply, SandboxRequest } from '../reply.js';
import type { SandboxDatabase, Sql } from '../sandbox-database.js';
import { API_VERSION, type Cause } from '../webhooks/events.js';
import { type Form, parseForm } from './form.js';
import {
  createPaymentIntent,
  listPaymentIntents,
  readNewPaymentIntent,
  retrieveCharge,
  retrievePaymentIntent,
} from './payment-intents.js';
import { createRefund, listRefunds, readNewRefund, retrieveRefund } from './refunds.js';
import { stripeError, StripeRefusal } from './stripe-refusal.js';

const LONGEST_KEY = 255;

/** Everything below `/v1`, as Stripe documents it. */
export class StripeApi {
  constructor(
    private readonly database: SandboxDatabase,
    private readonly calls: CreateCalls,
    private readonly settleMs: number,
  ) {}

  createPaymentIntent(request: SandboxRequest): Promise<Reply> {
    return this.create(request, 'payment_intents.create', readNewPaymentIntent, createPaymentIntent);
  }

  createRefund(request: SandboxRequest): Promise<Reply> {
    return this.create(request, 'refunds.create', readNewRefund, (sql, wanted, cause) =>
      createRefund(sql, wanted, cause, this.settleMs),
    );
  }

  retrievePaymentIntent(request: SandboxRequest, id: string): Promise<Reply> {
    return this.read(request, () => retrievePaymentIntent(this.database, id));
  }

  listPaymentIntents(request: SandboxRequest): Promise<Reply> {
    return this.read(request, () => listPaymentIntents(this.database, request.query));
  }

  retrieveRefund(request: SandboxRequest, id: string): Promise<Reply> {
    return this.read(request, () => retrieveRefund(this.database, id));
  }

  listRefunds(request: SandboxRequest): Promise<Reply> {
    return this.read(request, () => listRefunds(this.database, request.query));
  }

  retrieveCharge(request: SandboxRequest, id: string): Promise<Reply> {
    return this.read(request, () => retrieveCharge(this.database, id));
  }

  private async create<Wanted>(
    request: SandboxRequest,
    operation: Operation,
    understand: (form: Form) => Wanted,
    execute: (sql: Sql, wanted: Wanted, cause: Cause) => Promise<Reply>,
  ): Promise<Reply> {
    const key = keyOf(request);
    const reply = await this.calls.answer(operation, key, (): CreateCall => {
      requireApiKey(request);
      requireUsableKey(key);
      const form = parseForm(readForm(request));
      const wanted = understand(form);
      const cause = { requestId: request.id, idempotencyKey: key };
      return {
        operation,
        keyed: keyedRequest(request, key, form),
        execute: (sql) => execute(sql, wanted, cause),
        failure: stripeFailure,
      };
    });
    return withHeaders(reply, request);
  }

  private async read(request: SandboxRequest, work: () => Promise<Reply>): Promise<Reply> {
    requireApiKey(request);
    return withHeaders(await work(), request);
  }
}

function keyOf({ headers }: SandboxRequest): string | null {
  const key = headers['idempotency-key'];
  return typeof key === 'string' ? key : null;
}

function keyedRequest({ path, id }: SandboxRequest, key: string | null, form: Form): KeyedRequest | undefined {
  return key === null ? undefined : { key, path, fingerprint: fingerprintOf(form), requestId: id };
}

/** @throws StripeRefusal 401 */
function requireApiKey({ headers }: SandboxRequest): void {
  const [, scheme, credentials = ''] = /^(bearer|basic) +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
  const key = scheme?.toLowerCase() === 'basic' ? userOf(credentials) : credentials;
  if (/^[sr]k_\S+$/.test(key)) return;
  const message =
    key === ''
      ? `You did not provide an API key. You need to provide your API key in the Authorization header, using Bearer auth.`
      : `Invalid API Key provided: ${key.slice(0, 3)}****`;
  throw new StripeRefusal(401, { type: 'invalid_request_error', message });
}

function userOf(credentials: string): string {
  return Buffer.from(credentials, 'base64').toString().split(':')[0]!;
}

/** https://docs.stripe.com/api/idempotent_requests */
function requireUsableKey(key: string | null): void {
  if (key === null || (key !== '' && key.length <= LONGEST_KEY)) return;
  const message = `Idempotency-Key must have 1 to ${LONGEST_KEY} characters, but has ${key.length}.`;
  throw new StripeRefusal(400, { type: 'invalid_request_error', message });
}

function readForm({ headers, body }: SandboxRequest): string {
  const type = headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? '';
  if (body.length > 0 && type !== 'application/x-www-form-urlencoded') {
    const message = `Unsupported content type: send application/x-www-form-urlencoded, not ${type || 'nothing'}.`;
    throw new StripeRefusal(400, { type: 'invalid_request_error', message });
  }
  return body.toString();
}

function stripeFailure(status: 500 | 503): Reply {
  const message =
    status === 500 ? 'An unknown error occurred' : 'The service is temporarily unavailable. Please try again later.';
  return stripeError(status, { type: 'api_error', message });
}

function withHeaders(reply: Reply, { headers }: SandboxRequest): Reply {
  const key = headers['idempotency-key'];
  const version = headers['stripe-version'];
  return {
    ...reply,
    headers: {
      'stripe-version': typeof version === 'string' ? version : API_VERSION,
      ...(typeof key === 'string' && { 'idempotency-key': key }),
      ...reply.headers,
    },
  };
}
