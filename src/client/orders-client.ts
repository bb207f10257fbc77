import type {
  CloudEvent,
  EventPage,
  KeyStatus,
  KeyStatusList,
  NewOrder,
  NewPayment,
  NewRefund,
  Order,
  OrderChanges,
  Payment,
  Refund,
} from './api-types.js';
import { Timekeeper } from './clock.js';
import type { Intent, KeyedOperation } from './intent.js';
import { IntentRuns } from './intent-runs.js';
import { anything, type Expected, gone, page, resource } from './judgement.js';
import { complete, type CompleteOptions, type OrdersClientOptions } from './options.js';
import type { Outcome, Values } from './outcome.js';
import { type Page, pagesOf, pathWith, type Query, rowsOf } from './pages.js';
import { send } from './sending.js';

/** For any call. */
export interface CallOptions {
  /** Ends the call early; a keyed intent stays stored. */
  readonly signal?: AbortSignal;
}

/** For calls under a key. */
export interface KeyedOptions extends CallOptions {
  /**
   * The key, where the caller keeps it with a record of its own, written before this call; else one is made. 1 to 255
   * printable ASCII characters without space and double quote.
   */
  readonly key?: string;
  /** When that key was made, if it may have been sent before: past the retention it is not sent again. */
  readonly keyMadeAt?: Date;
  /** What this is for in the caller's records; `resume()` gives it back. */
  readonly reference?: string;
}

/** For changes that another writer may get in the way of. */
export interface VersionOptions extends CallOptions {
  /** The `version` that the change is meant for: `If-Match`. Left out, the last write wins. */
  readonly version?: number;
}

export interface UpdateOptions extends KeyedOptions {
  readonly version: number;
  /** Sends it under a key, so that it is stored and resumed (false: its version alone makes it safe to repeat). */
  readonly keyed?: boolean;
}

const ORDER = resource<Order>(200, 201);
const PAYMENT = resource<Payment>(200);
const REFUND = resource<Refund>(200);

/**
 * A client of the orders API that retries well: one key for each intent, made and stored before the first attempt; the
 * same bytes each time; bounded attempts and time; waits with jitter; and it never repeats what is not safe to repeat.
 *
 * Every method rejects with an `OrdersClientError`: `RefusedError` (final), `RetriesExhaustedError` (nothing happened),
 * `OutcomeUnknownError` (`resume()` finds out), `RetentionPassedError`, `CallAbortedError`, `IntentConflictError`; beside
 * them with a TypeError for arguments that make no sense, and with whatever the store, `settle` and `apiKey` throw.
 *
 * @example
 * const client = new OrdersClient({ baseUrl: 'http://localhost:3000', apiKey, store: await FileIntentStore.open(folder) });
 * for await (const outcome of client.resume()) console.log(outcome.status); // what an earlier process left unfinished
 * const order = await client.createOrder({ currency: 'EUR', items: [{ sku: 'tea', unitAmount: 450 }] });
 */
export class OrdersClient {
  private readonly options: CompleteOptions;
  private readonly time: Timekeeper;
  private readonly runs: IntentRuns;

  /** @throws RangeError or TypeError for options that make no sense */
  constructor(options: OrdersClientOptions) {
    this.options = complete(options);
    this.time = new Timekeeper(this.options.clock);
    this.runs = new IntentRuns(this.options, this.time);
  }

  /** Give the order an `externalRef`: it protects even after the key has expired. */
  async createOrder(order: NewOrder, options?: KeyedOptions): Promise<Order> {
    return this.keyed('createOrder', 'POST', '/v1/orders', order, options);
  }

  /** Charges the order's total. A decline is a `RefusedError` with code `payment-declined`. */
  async payOrder(orderId: string, payment: NewPayment, options?: KeyedOptions): Promise<Payment> {
    return this.keyed('payOrder', 'POST', `/v1/orders/${segment(orderId)}/payments`, payment, options);
  }

  /** Gives `amount` back, or all that is left. A `reference` protects even after the key has expired. */
  async refundPayment(paymentId: string, refund: NewRefund = {}, options?: KeyedOptions): Promise<Refund> {
    return this.keyed('refundPayment', 'POST', `/v1/payments/${segment(paymentId)}/refunds`, refund, options);
  }

  /** Replaces the members that are given, if the order still has the version. */
  async updateOrder(orderId: string, changes: OrderChanges, options: UpdateOptions): Promise<Order> {
    const path = `/v1/orders/${segment(orderId)}`;
    const headers = ifMatch(options);
    if (options.keyed || options.key !== undefined) {
      return this.keyed('updateOrder', 'PATCH', path, changes, options, headers);
    }
    return this.natural('updateOrder', 'PATCH', path, ORDER, options, { body: changes, headers });
  }

  /** Creates the order under an id of the caller's choice (any UUID); with a version, replaces it. */
  async putOrder(orderId: string, order: NewOrder, options: VersionOptions = {}): Promise<Order> {
    const path = `/v1/orders/${segment(orderId)}`;
    return this.natural('putOrder', 'PUT', path, ORDER, options, { body: order, headers: ifMatch(options) });
  }

  /** Creates or replaces the order with that business key. */
  async putOrderByExternalRef(externalRef: string, order: NewOrder, options: VersionOptions = {}): Promise<Order> {
    const path = `/v1/orders/by-external-ref/${segment(externalRef)}`;
    return this.natural('putOrderByExternalRef', 'PUT', path, ORDER, options, {
      body: order,
      headers: ifMatch(options),
    });
  }

  /** Also when it is cancelled already. */
  async cancelOrder(orderId: string, options: VersionOptions = {}): Promise<Order> {
    const content = { body: { status: 'cancelled' }, headers: ifMatch(options) };
    return this.natural('cancelOrder', 'PUT', `/v1/orders/${segment(orderId)}/status`, ORDER, options, content);
  }

  /** Resolves as well when a repeat finds it gone: an earlier attempt may have been what removed it. */
  async deleteOrder(orderId: string, options: VersionOptions = {}): Promise<void> {
    const content = { headers: ifMatch(options) };
    return this.natural('deleteOrder', 'DELETE', `/v1/orders/${segment(orderId)}`, gone, options, content);
  }

  async getOrder(orderId: string, options: CallOptions = {}): Promise<Order> {
    return this.get('getOrder', `/v1/orders/${segment(orderId)}`, ORDER, options);
  }

  async getPayment(paymentId: string, options: CallOptions = {}): Promise<Payment> {
    return this.get('getPayment', `/v1/payments/${segment(paymentId)}`, PAYMENT, options);
  }

  async getRefund(refundId: string, options: CallOptions = {}): Promise<Refund> {
    return this.get('getRefund', `/v1/refunds/${segment(refundId)}`, REFUND, options);
  }

  /** What the service knows of a key: for those who must decide about an intent that may not be sent any more. */
  async getKey(key: string, options: CallOptions = {}): Promise<KeyStatus[]> {
    const path = `/v1/idempotency-keys/${segment(key)}`;
    return (await this.get('getIdempotencyKey', path, page<KeyStatusList>(), options)).data;
  }

  /** Every order, oldest first, page after page as they are needed. */
  listOrders(
    query: { status?: Order['status']; externalRef?: string; limit?: number } = {},
    options: CallOptions = {},
  ) {
    return rowsOf<Order>(this.pages('listOrders', '/v1/orders', query, options));
  }

  listPayments(orderId: string, query: { limit?: number } = {}, options: CallOptions = {}): AsyncGenerator<Payment> {
    return rowsOf(this.pages('listPayments', `/v1/orders/${segment(orderId)}/payments`, query, options));
  }

  listRefunds(paymentId: string, query: { limit?: number } = {}, options: CallOptions = {}): AsyncGenerator<Refund> {
    return rowsOf(this.pages('listRefunds', `/v1/payments/${segment(paymentId)}/refunds`, query, options));
  }

  /**
   * The event log in pages, up to its present end. Handle a page, keep its `nextCursor` with what came of it, and give
   * that as `after` the next time: then no event is missed.
   */
  eventPages(query: EventQuery = {}, options: CallOptions = {}): AsyncGenerator<EventPage> {
    return this.pages<CloudEvent>('listEvents', '/v1/events', query, options) as AsyncGenerator<EventPage>;
  }

  /** Each event up to the log's present end, for those who need not go on later. */
  events(query: EventQuery = {}, options: CallOptions = {}): AsyncGenerator<CloudEvent> {
    return rowsOf(this.pages<CloudEvent>('listEvents', '/v1/events', query, options));
  }

  /**
   * A route of a fork's own. With `keyed` it is an intent like the others. Without, GET, PUT and DELETE are repeated, and
   * POST and PATCH are sent once only.
   */
  async request(
    method: string,
    path: string,
    options: KeyedOptions & { body?: unknown; keyed?: boolean } = {},
  ): Promise<unknown> {
    const { body, keyed, ...call } = options;
    if (keyed || call.key !== undefined) return this.keyed('request', method, path, body, call);
    return this.natural('request', method, path, anything, call, { body });
  }

  /**
   * Goes on with every intent that is stored, under the same keys and with the same bytes: the first thing to do after a
   * start. Ends when each was tried; those of still unknown outcome stay stored.
   *
   * @param options.concurrency how many at once (4)
   * @throws whatever the store or `settle` throws; never for what becomes of an intent
   */
  resume({ signal, concurrency = 4 }: CallOptions & { readonly concurrency?: number } = {}): AsyncGenerator<Outcome> {
    return this.runs.resume({ signal, concurrency: Math.max(1, concurrency) });
  }

  /** Forgets a stored intent that was decided otherwise. It is not cancelled at the service. */
  discard(key: string): Promise<void> {
    return this.runs.discard(key);
  }

  private async keyed<Operation extends KeyedOperation>(
    operation: Operation,
    method: string,
    path: string,
    body: unknown,
    { key, keyMadeAt, reference, signal }: KeyedOptions = {},
    headers: Record<string, string> = {},
  ): Promise<Values[Operation]> {
    const offset = this.time.serverOffset();
    const intent: Intent & { operation: Operation } = {
      key: checked(key ?? this.options.makeKey()),
      operation,
      method,
      path,
      headers,
      body: JSON.stringify(body ?? {}),
      createdAt: new Date(keyMadeAt?.getTime() ?? this.time.local()).toISOString(),
      ...(reference !== undefined && { reference }),
      ...(offset !== undefined && !keyMadeAt && { serverOffsetMs: offset }),
    };
    const sentBefore = keyMadeAt !== undefined;
    return this.runs.run(intent, { mayBeStored: key !== undefined, sentBefore, signal });
  }

  private async natural<T>(
    operation: string,
    method: string,
    path: string,
    expected: Expected<T>,
    { signal }: CallOptions,
    { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {},
  ): Promise<T> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    return send({ operation, method, path, headers, body: text, expected, signal }, this.options, this.time);
  }

  private get<T>(operation: string, path: string, expected: Expected<T>, options: CallOptions): Promise<T> {
    return this.natural(operation, 'GET', path, expected, options);
  }

  private pages<Row>(operation: string, path: string, query: Query, options: CallOptions): AsyncGenerator<Page<Row>> {
    return pagesOf(query, (asked) => this.get(operation, pathWith(path, asked), page<Page<Row>>(), options));
  }
}

/** Where to begin in the event log (`after`: a page's `nextCursor`), and of which aggregate. */
export type EventQuery = {
  readonly after?: string;
  readonly subject?: string;
  readonly limit?: number;
};

function ifMatch({ version }: { readonly version?: number }): Record<string, string> {
  return version === undefined ? {} : { 'If-Match': `"${version}"` };
}

/** @throws TypeError for what would change the path: an id must not lead to another resource */
function segment(text: string): string {
  if (text === '' || text === '.' || text === '..') throw new TypeError(`"${text}" cannot stand in a path`);
  return encodeURIComponent(text);
}

function checked(key: string): string {
  if (/^[\x21\x23-\x7e]{1,255}$/.test(key)) return key;
  throw new TypeError('A key is 1 to 255 printable ASCII characters without space and double quote');
}
