// Made from openapi.json by `npm run client:types`: do not edit.

export interface CloudEvent {
  specversion: '1.0';
  id: string;
  source: '/v1';
  /** order.created, order.updated, order.cancelled or order.deleted; others may come */
  type: string;
  /** The id of the aggregate */
  subject: string;
  time: string;
  datacontenttype: 'application/json';
  /** The aggregate's version; it rises from event to event */
  aggregateversion: string;
  /** The resource as GET shows it at that version */
  data: Record<string, unknown>;
}

export interface EventPage {
  data: CloudEvent[];
  /** Where to go on reading; given even when there is nothing more yet */
  nextCursor: string;
}

export interface Feed {
  feed: string;
  /** The one that may send */
  epoch: number;
  /** The last number taken; 0: none yet */
  lastSequence: number;
}

export interface FeedAcknowledgement {
  epoch: number;
  /** The feed's last number now */
  lastSequence: number;
  /** Records that made an order */
  applied: number;
  /** Records that were taken before, or whose external reference was in use */
  duplicates: number;
}

export interface FeedBatch {
  /** The epoch that the sender has opened */
  epoch: number;
  /** The number of the first record; the others have the numbers behind it. A feed begins at 1 */
  firstSequence: number;
  /** Applied together or not at all; no `externalRef` twice */
  records: FeedRecord[];
}

export interface FeedEpoch {
  feed: string;
  /** To send with. Every older one is fenced */
  epoch: number;
  /** The number of the next new record */
  nextSequence: number;
}

export interface FeedRecord {
  /** The order's name in your system, unique in your tenant. Where it exists already nothing changes. */
  externalRef: string;
  /** ISO 4217 */
  currency: string;
  /** Together worth 1 to 2^53 - 1 minor units */
  items: NewOrderItem[];
  /** At most 50 members */
  metadata?: Record<string, string>;
  /** A note about this attempt, such as a timestamp: neither stored nor part of what makes a request the same */
  clientContext?: Record<string, unknown>;
}

export interface KeyStatus {
  endpoint: string;
  status: 'in_progress' | 'completed';
  /** The last step that is committed, of an operation with steps */
  recoveryPoint: string | null;
  responseStatus: number | null;
  createdAt: string;
  completedAt: string | null;
  expiresAt: string | null;
  leaseUntil: string | null;
}

export interface KeyStatusList {
  data: KeyStatus[];
}

export interface NewOrder {
  /** The order's name in your system, unique in your tenant. It protects even after the key has expired. */
  externalRef?: string;
  /** ISO 4217 */
  currency: string;
  /** Together worth 1 to 2^53 - 1 minor units */
  items: NewOrderItem[];
  /** At most 50 members */
  metadata?: Record<string, string>;
  /** A note about this attempt, such as a timestamp: neither stored nor part of what makes a request the same */
  clientContext?: Record<string, unknown>;
}

export interface NewOrderItem {
  sku: string;
  quantity?: number;
  /** Minor units */
  unitAmount: number;
}

export interface NewPayment {
  method: 'card' | 'bank_transfer';
  /** With `card`: what the card provider calls the card */
  paymentMethod?: string;
  /** With `bank_transfer`: the account to collect from */
  account?: string;
  /** Where a receipt is to be mailed */
  receiptEmail?: string;
}

export interface NewRefund {
  /** Minor units; left out: all that is left, fixed at the first attempt */
  amount?: number;
  reason?: string;
  /** The refund's name in your system, unique for the payment. It protects even after the key has expired. */
  reference?: string;
}

export interface Order {
  id: string;
  /** The order's name in your system */
  externalRef: string | null;
  status: 'pending' | 'paid' | 'partially_refunded' | 'refunded' | 'cancelled';
  /** ISO 4217 */
  currency: string;
  items: OrderItem[];
  /** Minor units */
  totalAmount: number;
  metadata: Record<string, string>;
  /** Raised by exactly one with each change; the ETag is made of it */
  version: number;
  createdAt: string;
  updatedAt: string;
}

export interface OrderChanges {
  items?: NewOrderItem[];
  /** At most 50 members */
  metadata?: Record<string, string>;
}

export interface OrderItem {
  sku: string;
  quantity: number;
  /** Minor units */
  unitAmount: number;
}

export interface OrderPage {
  data: Order[];
  /** For `after`; null: this page is the last one */
  nextCursor: string | null;
}

export interface Payment {
  id: string;
  orderId: string;
  /** pending: the outcome is not known yet */
  status: 'pending' | 'succeeded' | 'declined' | 'failed';
  /** Minor units: the order's total when the payment began */
  amount: number;
  /** Minor units that were given back */
  refundedAmount: number;
  /** ISO 4217 */
  currency: string;
  method: 'card' | 'bank_transfer';
  /** The provider's name for it */
  providerRef: string | null;
  /** Why it was declined, in the provider's words */
  declineCode: string | null;
  /** Rises with each change */
  version: number;
  createdAt: string;
  updatedAt: string;
}

export interface PaymentPage {
  data: Payment[];
  /** For `after`; null: this page is the last one */
  nextCursor: string | null;
}

/** A refusal (RFC 9457). Clients tell refusals apart by `code`. */
export interface Problem {
  /** The page that explains the problem and the way out */
  type: string;
  title: string;
  status: number;
  /** What went wrong this time */
  detail: string;
  /** The path of the request */
  instance: string;
  /** The machine's handle */
  code: string;
  /** Under which the failure is on record */
  errorId?: string;
  /** What is not valid, member by member */
  errors?: ProblemFault[];
  /** The order that a client needs next */
  orderId?: string;
  /** The payment that a client needs next */
  paymentId?: string;
  /** The refund that a client needs next */
  refundId?: string;
  /** The provider's reason for saying no */
  declineCode?: string;
  /** Minor units that can still be given back */
  refundable?: number;
  /** The number to go on from */
  expectedSequence?: number;
  /** The epoch that may send; 0: none was opened yet */
  currentEpoch?: number;
  /** The first number that is not a repeat */
  sequence?: number;
}

export interface ProblemFault {
  /** JSON Pointer (RFC 6901) to the member */
  pointer: string;
  detail: string;
}

export interface Refund {
  id: string;
  paymentId: string;
  /** Minor units */
  amount: number;
  /** ISO 4217 */
  currency: string;
  /** pending: the outcome is not known yet, or the money is on its way */
  status: 'pending' | 'succeeded' | 'failed';
  reason: string | null;
  /** The refund's name in your system */
  reference: string | null;
  /** Rises with each change */
  version: number;
  createdAt: string;
  updatedAt: string;
}

export interface RefundPage {
  data: Refund[];
  /** For `after`; null: this page is the last one */
  nextCursor: string | null;
}

export interface StatusAssignment {
  status: 'cancelled';
}

/** The codes that an operation's problems can have. */
export interface ProblemCodes {
  createOrder:
    | 'duplicate-external-ref'
    | 'idempotency-key-in-use'
    | 'idempotency-key-invalid'
    | 'idempotency-key-missing'
    | 'idempotency-key-reused'
    | 'internal-error'
    | 'malformed-json'
    | 'outcome-unknown'
    | 'payload-too-large'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'unsupported-media-type'
    | 'validation-failed';
  deleteOrder:
    | 'internal-error'
    | 'not-found'
    | 'order-not-editable'
    | 'outcome-unknown'
    | 'precondition-failed'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated';
  getFeed:
    | 'internal-error'
    | 'not-found'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated';
  getIdempotencyKey:
    | 'internal-error'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated';
  getLiveness:
    | 'internal-error';
  getMetrics:
    | 'internal-error'
    | 'service-unavailable';
  getOrder:
    | 'internal-error'
    | 'not-found'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated';
  getPayment:
    | 'internal-error'
    | 'not-found'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated';
  getProblem:
    | 'internal-error'
    | 'not-found'
    | 'service-unavailable';
  getReadiness:
    | 'internal-error'
    | 'service-unavailable';
  getRefund:
    | 'internal-error'
    | 'not-found'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated';
  listEvents:
    | 'cursor-expired'
    | 'internal-error'
    | 'outcome-unknown'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'validation-failed';
  listOrders:
    | 'internal-error'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'validation-failed';
  listPayments:
    | 'internal-error'
    | 'not-found'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'validation-failed';
  listRefunds:
    | 'internal-error'
    | 'not-found'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'validation-failed';
  openFeedEpoch:
    | 'internal-error'
    | 'not-found'
    | 'outcome-unknown'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated';
  payOrder:
    | 'idempotency-key-in-use'
    | 'idempotency-key-invalid'
    | 'idempotency-key-missing'
    | 'idempotency-key-reused'
    | 'internal-error'
    | 'malformed-json'
    | 'not-found'
    | 'order-already-paid'
    | 'order-not-payable'
    | 'outcome-unknown'
    | 'payload-too-large'
    | 'payment-declined'
    | 'payment-failed'
    | 'payment-in-progress'
    | 'payment-outcome-unknown'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'unsupported-media-type'
    | 'validation-failed';
  putOrder:
    | 'duplicate-external-ref'
    | 'internal-error'
    | 'malformed-json'
    | 'not-found'
    | 'order-deleted'
    | 'order-not-editable'
    | 'outcome-unknown'
    | 'payload-too-large'
    | 'payment-in-progress'
    | 'precondition-failed'
    | 'precondition-required'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'unsupported-media-type'
    | 'validation-failed';
  putOrderByExternalRef:
    | 'internal-error'
    | 'malformed-json'
    | 'order-not-editable'
    | 'outcome-unknown'
    | 'payload-too-large'
    | 'payment-in-progress'
    | 'precondition-failed'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'unsupported-media-type'
    | 'validation-failed';
  receiveStripeEvent:
    | 'bad-signature'
    | 'internal-error'
    | 'malformed-json'
    | 'payload-too-large'
    | 'service-unavailable'
    | 'unsupported-media-type';
  refundPayment:
    | 'duplicate-external-ref'
    | 'idempotency-key-in-use'
    | 'idempotency-key-invalid'
    | 'idempotency-key-missing'
    | 'idempotency-key-reused'
    | 'internal-error'
    | 'malformed-json'
    | 'not-found'
    | 'outcome-unknown'
    | 'payload-too-large'
    | 'payment-declined'
    | 'payment-failed'
    | 'payment-in-progress'
    | 'payment-outcome-unknown'
    | 'rate-limited'
    | 'refund-exceeds-payment'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'unsupported-media-type'
    | 'validation-failed';
  sendFeedRecords:
    | 'epoch-fenced'
    | 'internal-error'
    | 'malformed-json'
    | 'not-found'
    | 'outcome-unknown'
    | 'payload-too-large'
    | 'rate-limited'
    | 'sequence-gap'
    | 'sequence-reused'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'unsupported-media-type'
    | 'validation-failed';
  setOrderStatus:
    | 'internal-error'
    | 'malformed-json'
    | 'not-found'
    | 'order-not-editable'
    | 'outcome-unknown'
    | 'payload-too-large'
    | 'payment-in-progress'
    | 'precondition-failed'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'unsupported-media-type'
    | 'validation-failed';
  updateOrder:
    | 'idempotency-key-in-use'
    | 'idempotency-key-invalid'
    | 'idempotency-key-reused'
    | 'internal-error'
    | 'malformed-json'
    | 'not-found'
    | 'order-not-editable'
    | 'outcome-unknown'
    | 'payload-too-large'
    | 'payment-in-progress'
    | 'precondition-failed'
    | 'precondition-required'
    | 'rate-limited'
    | 'service-unavailable'
    | 'unauthenticated'
    | 'unsupported-media-type'
    | 'validation-failed';
}
