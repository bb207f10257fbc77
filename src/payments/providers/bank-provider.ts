import { z } from 'zod';
import { CallFailedError, type HttpAnswer, HttpCaller } from './http-caller.js';
import {
  type ChargeOrder,
  type ChargeQuery,
  type Effect,
  LookUpFailedError,
  type PaymentProvider,
  type ProviderAnswer,
  type RefundOrder,
  type RefundQuery,
} from './payment-provider.js';

const text = z.string().min(1);

const transfer = z.looseObject({
  id: text,
  reference: text,
  amount: z.int().positive(),
  currency: text,
  status: z.enum(['pending', 'succeeded', 'declined', 'failed']),
  createdAt: z.iso.datetime({ offset: true }),
  /** The transfer that this one gives back. */
  refundOf: text.nullish(),
});

const listOfTransfers = z.looseObject({ data: z.array(transfer) });

const refusal = z.looseObject({ error: z.looseObject({ code: text, param: text.nullish().catch(undefined) }) });

type Transfer = z.infer<typeof transfer>;

/** What the bank is asked to do, as it goes over the wire. */
interface NewTransfer {
  readonly reference: string;
  readonly amount: number;
  readonly currency: string;
  readonly account?: string;
  readonly refundOf?: string;
}

const SENT_BY_CLIENT = ['account', 'amount', 'currency'];

/**
 * Bank transfers. This bank knows no idempotency key: whoever sends a transfer twice has made two. It can be asked by the
 * reference that a transfer was given, the payment's id or the refund's, and that is all there is against a lost reply.
 */
export class BankProvider implements PaymentProvider {
  readonly name = 'bank';
  readonly keyWindow = 0;

  private readonly transfers: string;
  private readonly caller: HttpCaller;

  /** @param options apiBase: what the bank's paths follow; timeout: milliseconds for each call, as a whole */
  constructor({ apiBase, timeout }: { apiBase: string; timeout: number }) {
    this.transfers = `${apiBase.replace(/\/+$/, '')}/bank/transfers`;
    this.caller = new HttpCaller(timeout);
  }

  charge({ paymentId, amount, currency, source }: ChargeOrder): Promise<ProviderAnswer> {
    return this.make({ reference: paymentId, amount, currency, account: source });
  }

  refund({ refundId, amount, currency, chargeRef }: RefundOrder): Promise<ProviderAnswer> {
    return this.make({ reference: refundId, amount, currency, refundOf: chargeRef });
  }

  async findCharges({ paymentId }: ChargeQuery): Promise<Effect[]> {
    return this.find(paymentId, undefined);
  }

  async findRefunds({ refundId, chargeRef }: RefundQuery): Promise<Effect[]> {
    return this.find(refundId, chargeRef);
  }

  private async make(order: NewTransfer): Promise<ProviderAnswer> {
    try {
      const answer = await this.caller.call({
        method: 'POST',
        url: new URL(this.transfers),
        headers: { Accept: 'application/json', 'Content-Type': 'application/json' },
        body: JSON.stringify(order),
      });
      return answerOf(answer, order);
    } catch (error) {
      const isUnsent = error instanceof CallFailedError && !error.sent;
      return { kind: isUnsent ? 'not-happened' : 'unknown', reason: String(error) };
    }
  }

  private async find(reference: string, refundOf: string | undefined): Promise<Effect[]> {
    try {
      const url = new URL(`${this.transfers}?${new URLSearchParams({ reference }).toString()}`);
      const { status, body } = await this.caller.call({ method: 'GET', url, headers: { Accept: 'application/json' } });
      if (status !== 200) throw new Error(`Status ${status}`);
      const effects = listOfTransfers
        .parse(JSON.parse(body))
        .data.map((found) => foundEffect(found, reference, refundOf));
      return effects.sort((a, b) => a.createdAt.getTime() - b.createdAt.getTime());
    } catch (error) {
      throw new LookUpFailedError(this.name, error);
    }
  }
}

/** What an answer proves, by the table in the contract; what the table does not name is unknown, or a fault of ours. */
function answerOf(answer: HttpAnswer, order: NewTransfer): ProviderAnswer {
  const { status } = answer;
  if (status === 200 || status === 201) return answerOfSuccess(answer, order);
  // 408: a proxy that has lost patience; what stands behind it may be working still. 409: it is, it says so.
  if (status < 400 || status >= 500 || status === 408 || status === 409) {
    return { kind: 'unknown', reason: `Status ${status}` };
  }
  if (status === 429) return { kind: 'not-happened', reason: `Status ${status}` };
  const { error } = read(refusal, answer.body) ?? {};
  if (status === 402 && error) return { kind: 'effect', effect: refusedEffect(answer, order, error.code) };
  if (status === 400 && error && SENT_BY_CLIENT.includes(error.param ?? ''))
    return { kind: 'refused', code: error.code };
  return { kind: 'fault', code: faultCode(status, error?.code), reason: `Status ${status}` };
}

function answerOfSuccess(answer: HttpAnswer, order: NewTransfer): ProviderAnswer {
  const made = read(transfer, answer.body);
  if (!made) return { kind: 'unknown', reason: `Status ${answer.status} without a transfer that can be read` };
  const isOurs =
    made.reference === order.reference &&
    made.amount === order.amount &&
    made.currency === order.currency &&
    (made.refundOf ?? undefined) === order.refundOf;
  if (!isOurs) return { kind: 'unknown', reason: 'The answer is about another transfer' };
  return { kind: 'effect', effect: effectOf(made) };
}

/** Nothing was made that the bank would have a name for, so it goes by the name that we gave. */
function refusedEffect({ headers }: HttpAnswer, { reference, amount, currency }: NewTransfer, code: string): Effect {
  const date = new Date(String(headers.date));
  const createdAt = Number.isNaN(date.getTime()) ? new Date() : date;
  return { reference, state: 'declined', code, amount, currency, createdAt };
}

function faultCode(status: number, code: string | undefined): string {
  if (status === 401) return 'authentication';
  if (status === 403) return 'permission';
  return code ?? `http_${status}`;
}

/** @throws Error when the bank shows something else than was asked for: it proves nothing then, least of all absence */
function foundEffect(found: Transfer, reference: string, refundOf: string | undefined): Effect {
  if (found.reference !== reference) throw new Error(`${found.id} has another reference than was asked for`);
  if ((found.refundOf ?? undefined) !== refundOf) throw new Error(`${found.id} gives back another transfer`);
  return effectOf(found);
}

function effectOf({ id, status, amount, currency, createdAt }: Transfer): Effect {
  return { reference: id, state: status, amount, currency, createdAt: new Date(createdAt) };
}

function read<T>(schema: z.ZodType<T>, body: string): T | undefined {
  try {
    return schema.parse(JSON.parse(body));
  } catch {
    return undefined;
  }
}
