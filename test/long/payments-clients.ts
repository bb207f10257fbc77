import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceResponse } from '../support/service-process.js';
import type { Plan, Step } from './payments-plan.js';
import type { PaymentsWorld } from './payments-world.js';

/** One delivery of a request and what came of it. */
export interface Delivery {
  readonly at: number;
  readonly process: number;
  /** Undefined: none came. */
  readonly status: number | undefined;
  readonly code: string | undefined;
  readonly text: string;
  /** There is a completed record behind it: from now on every repeat gets the same. */
  readonly final: boolean;
}

/** A request that moves money, with its key, as often as it was sent. */
export interface KeyedRequest {
  readonly kind: 'pay' | 'refund';
  readonly key: string;
  readonly path: string;
  readonly body: object;
  readonly deliveries: Delivery[];
}

/** What each kind of request may be answered. A 503 is always one of the documented ones, see `unexpected`. */
const EXPECTED: Readonly<Record<string, readonly number[]>> = {
  pay: [201, 402, 404, 409, 503],
  refund: [201, 402, 404, 409, 422, 503],
  edit: [200, 404, 409, 412],
  upsert: [200, 201, 409],
  cancel: [200, 404, 409],
  delete: [204, 404, 409],
  read: [200, 404],
};
const EXPECTED_CODES: Readonly<Record<string, readonly string[]>> = {
  pay: ['idempotency-key-in-use', 'payment-in-progress', 'order-already-paid', 'order-not-payable'],
  refund: ['idempotency-key-in-use', 'payment-in-progress', 'duplicate-external-ref'],
};
const UNAVAILABLE = ['service-unavailable', 'outcome-unknown', 'payment-outcome-unknown'];

/** The clients of a run: they do what its plan says, and remember what they were told. */
export class Clients {
  readonly requests: KeyedRequest[] = [];
  readonly orders: string[] = [];
  readonly faults: string[] = [];
  /** What was read, by resource and version. */
  readonly read = new Map<string, string>();
  operations = 0;
  armed = 0;
  private readonly running: Promise<void>[] = [];

  constructor(
    private readonly world: PaymentsWorld,
    private readonly plan: Plan,
  ) {}

  /** Goes through the whole plan, several steps at once. */
  async run(): Promise<void> {
    for (const { unitAmount, externalRef } of this.plan.orders) {
      const body = { externalRef, currency: 'EUR', items: [{ sku: 'tea', unitAmount }] };
      const answer = await this.world.request(0, 'POST', '/v1/orders', { headers: this.keyed(randomUUID()), body });
      this.orders.push(answer!.json.id as string);
    }
    const steps = this.plan.steps.values();
    const client = async (): Promise<void> => {
      for (const step of steps) await this.take(step);
    };
    await Promise.all(Array.from({ length: this.plan.clients }, client));
    await Promise.all(this.running);
  }

  /** Sends everything again that has no final answer, until it has one. */
  async finish(until: number): Promise<void> {
    const open = () => this.requests.filter((request) => !isOver(request));
    for (let turn = 0; open().length > 0 && Date.now() < until; turn += 1) {
      if (turn > 0) await sleep(150);
      await Promise.all(open().map((request) => this.send(request, turn % 2)));
    }
    for (const { key, kind, deliveries } of open()) {
      this.faults.push(`${kind} ${key} got no final answer: ${JSON.stringify(deliveries.at(-1))}`);
    }
  }

  /** Every answered key once more: each must be told what it was told before. */
  async repeatAll(): Promise<void> {
    for (const [n, request] of this.requests.entries()) await this.send(request, n % 2);
  }

  async get(path: string, process = 0): Promise<ServiceResponse | undefined> {
    const answer = await this.world.request(process, 'GET', path);
    if (!answer) return undefined;
    this.expectStatus('read', path, answer);
    const { etag } = answer.headers;
    if (answer.status !== 200 || etag === undefined) return answer;
    const seen = this.read.get(`${path} ${etag}`) ?? answer.text;
    if (seen !== answer.text)
      this.faults.push(`${path} shows two things at version ${etag}: ${seen} and ${answer.text}`);
    this.read.set(`${path} ${etag}`, answer.text);
    return answer;
  }

  private async take(step: Step): Promise<void> {
    this.operations += 1;
    const orderId = this.orders[step.order]!;
    const { sandbox, wires } = this.world;
    switch (step.kind) {
      case 'pay':
        return this.move('pay', `/v1/orders/${orderId}/payments`, step.body, step);
      case 'refund':
        return this.refund(orderId, step);
      case 'retry':
        return this.retry(step.pick, step.copies, step.process);
      case 'edit':
      case 'upsert':
      case 'cancel':
      case 'delete':
        return this.changeOrder(step, orderId);
      case 'read':
        return this.look(step.process, orderId);
      case 'redeliver':
        // With its own client, as the provider would: the next step does not wait for it.
        this.running.push(sandbox.send('POST', '/sandbox/webhooks/redeliver', { order: step.sequence }).then(() => {}));
        return;
      case 'webhooks':
        await sandbox.send('POST', '/sandbox/webhooks', { paused: step.paused });
        return;
      case 'dashboardRefund':
        return this.refundByHand(orderId, step.share, step.pick);
      case 'failRefund':
        return this.failRefund(step.pick);
      case 'fault':
        this.armed += step.times;
        return sandbox.arm(step.operation, step.fault, step);
      case 'hold':
        return wires.hold(step.operation, step.ms);
      case 'crash':
        return this.world.crash(step.process);
      case 'stall':
        this.running.push(this.world.stall(step.process, step.ms));
    }
  }

  private async move(
    kind: KeyedRequest['kind'],
    path: string,
    body: object,
    { process, hangUp }: { process: number; hangUp?: number },
  ): Promise<void> {
    const request = { kind, key: randomUUID(), path, body, deliveries: [] };
    this.requests.push(request);
    await this.send(request, process, hangUp);
  }

  private async send(request: KeyedRequest, process: number, hangUp?: number): Promise<void> {
    const { kind, key, path, body, deliveries } = request;
    const signal = hangUp === undefined ? {} : { signal: AbortSignal.timeout(hangUp) };
    const answer = await this.world.request(process, 'POST', path, { headers: this.keyed(key), body, ...signal });
    const code = answer && answer.status >= 400 ? (answer.json.code as string) : undefined;
    const final = answer?.headers['idempotency-expires'] !== undefined;
    deliveries.push({ at: Date.now(), process, status: answer?.status, code, text: answer?.text ?? '', final });
    if (answer) this.expectStatus(kind, `${path} ${key}`, answer);
  }

  private async refund(orderId: string, step: Step & { kind: 'refund' }): Promise<void> {
    const payments = ((await this.get(`/v1/orders/${orderId}/payments`, step.process))?.json.data ?? []) as {
      id: string;
      amount: number;
      status: string;
    }[];
    const payment = payments.find(({ status }) => status === 'succeeded') ?? payments.at(-1);
    if (!payment) return;
    const { share, reference } = step;
    const amount = share === 'all' ? {} : { amount: Math.max(1, Math.round(payment.amount * share)) };
    const body = { ...amount, ...(reference !== undefined && { reference }) };
    await this.move('refund', `/v1/payments/${payment.id}/refunds`, body, step);
  }

  /** One of the requests so far, rather one that has no answer yet. */
  private async retry(pick: number, copies: number, process: number): Promise<void> {
    const open = this.requests.filter((request) => !isOver(request));
    const among = open.length > 0 && pick < 0.8 ? open : this.requests;
    const request = among[Math.floor(((pick * 7919) % 1) * among.length)];
    if (!request) return;
    await Promise.all(Array.from({ length: copies }, (_, n) => this.send(request, (process + n) % 2)));
  }

  private async changeOrder(step: Step, id: string): Promise<void> {
    const { process, kind } = step;
    const path = `/v1/orders/${id}`;
    const answer = await this.orderRequest(step, id, path);
    if (answer) this.expectStatus(kind, `${path} by process ${process}`, answer);
  }

  private async orderRequest(step: Step, id: string, path: string): Promise<ServiceResponse | undefined> {
    const { process } = step;
    if (step.kind === 'edit' || step.kind === 'upsert') {
      const items = [{ sku: 'tea', unitAmount: step.unitAmount }];
      if (step.kind === 'upsert') {
        const { externalRef } = this.plan.orders[step.order]!;
        const body = { currency: 'EUR', items };
        return this.world.request(process, 'PUT', `/v1/orders/by-external-ref/${externalRef}`, { body });
      }
      const etag = (await this.get(path, process))?.headers.etag;
      if (etag === undefined) return undefined;
      return this.world.request(process, 'PATCH', path, { headers: { 'If-Match': etag }, body: { items } });
    }
    if (step.kind === 'delete') return this.world.request(process, 'DELETE', path);
    return this.world.request(process, 'PUT', `${path}/status`, { body: { status: 'cancelled' } });
  }

  private async look(process: number, orderId: string): Promise<void> {
    await this.get(`/v1/orders/${orderId}`, process);
    const payments = (await this.get(`/v1/orders/${orderId}/payments`, process))?.json.data as { id: string }[];
    for (const { id } of payments ?? []) {
      await this.get(`/v1/payments/${id}`, process);
      const refunds = (await this.get(`/v1/payments/${id}/refunds`, process))?.json.data as { id: string }[];
      for (const refund of refunds ?? []) await this.get(`/v1/refunds/${refund.id}`, process);
    }
  }

  /** The merchant sees the charges in the dashboard, whether the service knows of them yet or not. */
  private async refundByHand(orderId: string, share: number | 'all', pick: number): Promise<void> {
    const payments = await this.world.database.query<{ id: string }>('SELECT id FROM payments WHERE order_id = $1', [
      orderId,
    ]);
    const charges = await this.world.provider.query<{ id: string; amount: number }>(
      `SELECT id, amount::int FROM sandbox.payment_intents WHERE status = 'succeeded' AND metadata->>'payment' = ANY($1)`,
      [payments.map(({ id }) => id)],
    );
    const charge = charges[Math.floor(pick * charges.length)];
    if (!charge) return;
    const body = share === 'all' ? {} : { amount: Math.max(1, Math.round(charge.amount * share)) };
    // More than is left is refused, there as here.
    await this.world.sandbox.send('POST', `/sandbox/payment_intents/${charge.id}/refund`, body).catch(() => undefined);
  }

  private async failRefund(pick: number): Promise<void> {
    const refunds = await this.world.provider.query<{ id: string }>(
      `SELECT id FROM sandbox.refunds WHERE status <> 'failed' ORDER BY seq`,
    );
    const refund = refunds[Math.floor(pick * refunds.length)];
    if (refund) await this.world.sandbox.send('POST', `/sandbox/refunds/${refund.id}/fail`);
  }

  private expectStatus(kind: string, what: string, { status, text, headers }: ServiceResponse): void {
    const code = /problem/.test(headers['content-type'] ?? '') ? (JSON.parse(text) as { code: string }).code : '';
    const codes = EXPECTED_CODES[kind];
    const isExpected =
      status === 503
        ? UNAVAILABLE.includes(code) && headers['retry-after'] !== undefined
        : EXPECTED[kind]!.includes(status) && (status !== 409 || !codes || codes.includes(code));
    if (!isExpected) this.faults.push(`${kind} ${what} was answered ${status} ${text}`);
  }

  private keyed(key: string): Record<string, string> {
    return { 'Idempotency-Key': key };
  }
}

/** Whether a client is done with it: there is an answer for good, or what it is about is gone. */
export function isOver({ deliveries }: KeyedRequest): boolean {
  return deliveries.some(({ final, status }) => final || status === 404);
}
