import { Injectable } from '@nestjs/common';
import { IsNull } from 'typeorm';
import { v7 as uuidv7 } from 'uuid';
import type { Transaction } from '../database/transaction.js';
import { UnitOfWork } from '../database/unit-of-work.js';
import type { Conditions } from '../http/conditions.js';
import { Problem } from '../http/problem.js';
import { NotFound } from '../http/problems.js';
import type { TimePosition } from '../http/time-position.js';
import { type DomainEvent, Outbox } from '../messaging/outbox.js';
import { viewOf } from './dto/order-view.js';
import type { OrderChanges } from './dto/order-changes.js';
import type { NewOrder } from './dto/new-order.js';
import { contentOf, hasContent, itemsOf, type OrderContent, totalOf } from './order-content.js';
import { Order } from './order.entity.js';
import { DuplicateExternalRef, OrderDeleted, OrderNotEditable, PaymentInProgress } from './order.problems.js';
import {
  assignOrderStatus,
  deleteOrder,
  findOrderOfRef,
  findUsedRefs,
  insertOrder,
  insertOrders,
  type ListedOrder,
  listOrders,
  lockOrder,
  lockOrderOfRef,
  type OrderFilter,
  setLivePayment,
  updateOrder,
  upsertOrder,
} from './order-table.js';

/** An order after a request, and whether the request has created it. */
export interface Written {
  readonly order: Order;
  readonly created: boolean;
}

/**
 * Orders, and every natural way to make writing them repeatable: a business key, an id that the client chose, a version
 * that the change names, a state that is assigned. Whatever changes an order appends its event in the same transaction.
 */
@Injectable()
export class OrdersService {
  constructor(
    private readonly unitOfWork: UnitOfWork,
    private readonly outbox: Outbox,
  ) {}

  /** @throws Problem `duplicate-external-ref` */
  async create(tenantId: string, request: NewOrder): Promise<Order> {
    const content = contentOf(request);
    return this.unitOfWork.run(tenantId, async (transaction) => {
      for (;;) {
        const order = await this.insert(transaction, uuidv7(), content);
        if (order) return order;
        await refuseTakenRef(transaction, content.externalRef);
      }
    });
  }

  /**
   * Creates orders in one statement, and leaves alone those whose external reference is taken.
   *
   * @param orders none with the external reference of another one
   * @returns the external references of those that were created
   * @throws Problem `validation-failed` for a total out of range
   */
  async createAll(transaction: Transaction, orders: readonly NewOrder[]): Promise<ReadonlySet<string>> {
    const contents = orders.map((order) => ({ id: uuidv7(), ...contentOf(order) }));
    const created = await insertOrders(transaction, contents);
    const events = created.map((order) => eventOf('order.created', order));
    this.outbox.appendAll(transaction, events);
    return new Set(created.map(({ externalRef }) => externalRef!));
  }

  /** Which of the external references an order of the tenant has, or had when it was deleted. */
  async usedRefs(transaction: Transaction, externalRefs: readonly string[]): Promise<ReadonlySet<string>> {
    return new Set(await findUsedRefs(transaction, externalRefs));
  }

  /**
   * Creates the order under an id that the client chose, or replaces its content.
   *
   * @throws Problem `order-deleted`, `duplicate-external-ref`, `order-not-editable`, or of a condition
   */
  async put(tenantId: string, id: string, request: NewOrder, conditions: Conditions): Promise<Written> {
    const content = contentOf(request);
    return this.unitOfWork.run(tenantId, async (transaction) => {
      for (;;) {
        const existing = await lockOrder(transaction, id);
        if (existing?.deletedAt) throw new Problem(OrderDeleted, 'An order with this id existed and was deleted.');
        conditions.checkAbsence(existing?.version);
        if (existing) {
          if (!hasContent(existing, content)) conditions.requireVersion();
          return { order: await this.edit(transaction, existing, content, conditions), created: false };
        }
        conditions.checkVersion(undefined);
        const order = await this.insert(transaction, id, content);
        if (order) return { order, created: true };
        await refuseTakenRef(transaction, content.externalRef, id); // unless a request for the same id came first
      }
    });
  }

  /**
   * Creates the order of an external reference, or replaces its content. Where the request sets no condition this is one
   * statement.
   *
   * @throws Problem `order-not-editable`, or of a condition
   */
  async putByRef(tenantId: string, externalRef: string, request: NewOrder, conditions: Conditions): Promise<Written> {
    const content = { ...contentOf(request), externalRef };
    return this.unitOfWork.run(tenantId, async (transaction) => {
      for (;;) {
        const written = conditions.any ? undefined : await this.upsert(transaction, content);
        if (written) return written;
        const existing = await lockOrderOfRef(transaction, externalRef);
        conditions.checkAbsence(existing?.version);
        if (existing) return { order: await this.edit(transaction, existing, content, conditions), created: false };
        conditions.checkVersion(undefined);
        const order = await this.insert(transaction, uuidv7(), content);
        if (order) return { order, created: true };
      }
    });
  }

  /** @throws Problem `not-found`, `precondition-required`, `precondition-failed`, `order-not-editable` */
  async change(tenantId: string, id: string, changes: OrderChanges, conditions: Conditions): Promise<Order> {
    const items = changes.items && itemsOf(changes.items);
    const given = {
      ...(items && { items, totalAmount: totalOf(items) }),
      ...(changes.metadata && { metadata: changes.metadata }),
    };
    return this.unitOfWork.run(tenantId, async (transaction) => {
      const existing = await lockLiving(transaction, id);
      conditions.requireVersion();
      const content = { ...existing, ...given };
      return this.edit(transaction, existing, content, conditions);
    });
  }

  /** @throws Problem `not-found`, `precondition-failed`, `order-not-editable` */
  async cancel(tenantId: string, id: string, conditions: Conditions): Promise<Order> {
    return this.unitOfWork.run(tenantId, async (transaction) => {
      const existing = await lockLiving(transaction, id);
      if (existing.status === 'cancelled') return existing;
      conditions.checkVersion(existing.version);
      refuseClosed(existing);
      const order = await updateOrder(transaction, existing, { ...existing, status: 'cancelled' });
      this.tell(transaction, 'order.cancelled', order);
      return order;
    });
  }

  /** @throws Problem `not-found`, `precondition-failed`, `order-not-editable` */
  async delete(tenantId: string, id: string, conditions: Conditions): Promise<void> {
    await this.unitOfWork.run(tenantId, async (transaction) => {
      const existing = await lockLiving(transaction, id);
      conditions.checkVersion(existing.version);
      const isUnpaid = existing.status === 'pending' || existing.status === 'cancelled';
      if (!isUnpaid || existing.hadPayment) throw notEditable(existing);
      const { version } = await deleteOrder(transaction, existing);
      this.tell(transaction, 'order.deleted', existing, version); // shown as it last was, at the version of its end
    });
  }

  /** @throws Problem `not-found` */
  async read(tenantId: string, id: string): Promise<Order> {
    const order = await this.unitOfWork.read(tenantId, (manager) =>
      manager.findOneBy(Order, { tenantId, id, deletedAt: IsNull() }),
    );
    return order ?? notFound();
  }

  /** Living orders, oldest first. */
  async list(
    tenantId: string,
    filter: OrderFilter,
    after: TimePosition | undefined,
    limit: number,
  ): Promise<ListedOrder[]> {
    return this.unitOfWork.read(tenantId, (manager) => listOrders(manager, tenantId, filter, after, limit));
  }

  /**
   * Takes the order's row until the end of the transaction. A payment's first step and everything that settles it begin
   * with this, before they touch the payment.
   *
   * @throws Problem `not-found`
   */
  async lock(transaction: Transaction, id: string): Promise<Order> {
    return lockLiving(transaction, id);
  }

  /** Notes the payment that lives; while it is pending the order is closed to edits. The order's row must be held. */
  async closeFor(transaction: Transaction, id: string, paymentId: string): Promise<void> {
    await setLivePayment(transaction, id, paymentId);
  }

  /** Opens an order, whose row is held, after its payment has come to nothing. */
  async reopen(transaction: Transaction, id: string): Promise<void> {
    await setLivePayment(transaction, id, null);
  }

  /**
   * Gives an order, whose row is held, the status that its payment's state makes. It has no event of its own: the
   * payment's, or the refund's, tells of it.
   */
  async assignPaymentStatus(
    transaction: Transaction,
    id: string,
    status: 'paid' | 'partially_refunded' | 'refunded',
  ): Promise<void> {
    await assignOrderStatus(transaction, id, status);
  }

  private async insert(transaction: Transaction, id: string, content: OrderContent): Promise<Order | undefined> {
    const order = await insertOrder(transaction, id, content);
    if (order) this.tell(transaction, 'order.created', order);
    return order;
  }

  private async upsert(transaction: Transaction, content: OrderContent): Promise<Written | undefined> {
    const id = uuidv7();
    const order = await upsertOrder(transaction, id, content);
    if (!order) return undefined;
    const created = order.id === id;
    this.tell(transaction, created ? 'order.created' : 'order.updated', order);
    return { order, created };
  }

  /**
   * Gives an order, whose row is locked, that content. What is there already is no change, whatever version the request
   * was made for: it is the repeat of a request that has succeeded (RFC 9110, section 13.1.1).
   */
  private async edit(
    transaction: Transaction,
    existing: Order,
    content: OrderContent,
    conditions: Conditions,
  ): Promise<Order> {
    if (hasContent(existing, content)) return existing;
    conditions.checkVersion(existing.version);
    refuseClosed(existing);
    if (content.externalRef !== existing.externalRef) await refuseTakenRef(transaction, content.externalRef);
    const order = await updateOrder(transaction, existing, { ...content, status: existing.status });
    this.tell(transaction, 'order.updated', order);
    return order;
  }

  private tell(transaction: Transaction, type: string, order: Order, version = order.version): void {
    this.outbox.append(transaction, eventOf(type, order, version));
  }
}

function eventOf(type: string, order: Order, version = order.version): DomainEvent {
  return { aggregateType: 'order', aggregateId: order.id, aggregateVersion: version, type, data: viewOf(order) };
}

async function lockLiving(transaction: Transaction, id: string): Promise<Order> {
  const order = await lockOrder(transaction, id);
  return order && !order.deletedAt ? order : notFound();
}

/** @throws Problem `duplicate-external-ref` when a living order, other than `id`, has that reference */
async function refuseTakenRef(transaction: Transaction, externalRef: string | null, id?: string): Promise<void> {
  const orderId = externalRef === null ? undefined : await findOrderOfRef(transaction, externalRef);
  if (orderId === undefined || orderId === id) return;
  throw new Problem(DuplicateExternalRef, `The order ${orderId} has this external reference.`, {
    members: { orderId },
  });
}

function notFound(): never {
  throw new Problem(NotFound, 'There is no order with this id.');
}

/** Only a pending order changes, and not while a payment is under way. */
function refuseClosed(order: Order): void {
  if (order.status !== 'pending') throw notEditable(order);
  if (order.livePaymentId !== null) throw paymentInProgress(order.livePaymentId);
}

/** The refusal of whatever has to wait for a payment. */
export function paymentInProgress(paymentId: string): Problem {
  return new Problem(PaymentInProgress, `The outcome of the payment ${paymentId} is not known yet.`, {
    members: { paymentId },
    headers: { 'Retry-After': '5' },
  });
}

function notEditable({ id, status }: Order): Problem {
  return new Problem(OrderNotEditable, `The order is ${status}.`, { members: { orderId: id } });
}
