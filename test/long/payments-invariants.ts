import type { EventRow, MovementRow, PaymentRow, Snapshot, SurplusQuestion } from './payments-snapshot.js';

/** What does not hold, and of which payment. */
export interface Breach {
  readonly text: string;
  readonly paymentId?: string;
}

/** What a payment, or a refund, may tell of itself in its life, one after the other. */
const LIVES: Readonly<Record<string, RegExp>> = {
  payment: /^(succeeded|(declined|failed)( succeeded)?)?$/,
  refund: /^(succeeded|failed)?( (succeeded|failed))*$/,
};
const ORDER_EVENTS = /^order\.created( order\.updated)*( order\.(cancelled|deleted))?( order\.deleted)?$/;

/** Everything that must hold once nothing is under way any more. */
export function breachesOf(snapshot: Snapshot): Breach[] {
  return [
    ...nothingUnknown(snapshot),
    ...moneyAgrees(snapshot),
    ...nobodyPaysTwice(snapshot),
    ...ordersFit(snapshot),
    ...oneEventPerChange(snapshot),
  ];
}

function* nothingUnknown(snapshot: Snapshot): Generator<Breach> {
  const { payments, refunds, provider, openKeys, openSurplus, untold } = snapshot;
  for (const { ref, state, paymentId } of provider)
    if (state === 'pending') yield { text: `${ref} is pending at the provider`, paymentId };
  for (const { id, status, reservedAmount } of payments) {
    if (status === 'pending') yield { text: `payment ${id} is pending`, paymentId: id };
    if (reservedAmount !== 0) yield { text: `payment ${id} still reserves ${reservedAmount}`, paymentId: id };
  }
  for (const { id, paymentId, status } of refunds)
    if (status === 'pending') yield { text: `refund ${id} is pending`, paymentId };
  for (const { key, endpoint, recoveryPoint } of openKeys)
    yield { text: `key ${key} of ${endpoint} is in progress at ${recoveryPoint}` };
  for (const { paymentId, status } of openSurplus)
    yield { text: `a surplus charge of payment ${paymentId} is ${status}`, paymentId };
  if (untold > 0) yield { text: `${untold} webhooks are still to come` };
}

/** Money at the provider = money in the books = what the API tells, movement by movement, per payment and in total. */
function* moneyAgrees(snapshot: Snapshot): Generator<Breach> {
  const { payments, movements, provider } = snapshot;
  const stuck = stuckWith(snapshot);
  const booked = new Map(movements.map((movement) => [`${movement.kind} ${movement.ref}`, movement]));
  for (const { ref, kind, paymentId, amount, state } of provider) {
    const row = booked.get(`${kind} ${ref}`);
    const reversed = booked.has(`refund_reversal ${ref}`);
    const net = row && !reversed ? Math.abs(row.amount) : 0;
    if (net !== (state === 'succeeded' ? amount : 0))
      yield { text: `${kind} ${ref} of ${amount} is ${state} at the provider, and ${net} in the books`, paymentId };
    if (row && row.paymentId !== paymentId) yield { text: `${ref} is booked for ${row.paymentId}`, paymentId };
  }
  const known = new Set(provider.map(({ kind, ref }) => `${kind} ${ref}`));
  for (const { kind, ref, paymentId } of movements)
    if (!known.has(`${kind.replace('_reversal', '')} ${ref}`))
      yield { text: `${kind} ${ref} is booked, and the provider shows none`, paymentId };

  for (const payment of payments) {
    const { id: paymentId } = payment;
    const ours = movements.filter((movement) => movement.paymentId === paymentId);
    const net = sum(ours.filter(({ surplus }) => !surplus));
    const told = toldOf(payment);
    if (net !== told) yield { text: `payment ${paymentId} tells of ${told}, and ${net} is in the books`, paymentId };
    const surplus = sum(ours.filter((movement) => movement.surplus));
    const asked = stuck.filter((question) => question.paymentId === paymentId);
    if (surplus !== sum(asked)) yield { text: `payment ${paymentId} has ${surplus} of surplus`, paymentId };
  }
  const total = (parts: readonly number[]) => parts.reduce((all, part) => all + part, 0);
  const atProvider = total(
    provider
      .filter(({ state }) => state === 'succeeded')
      .map(({ kind, amount }) => (kind === 'charge' ? amount : -amount)),
  );
  const [inBooks, inApi] = [sum(movements), total(payments.map(toldOf))];
  if (atProvider !== inBooks || inBooks !== inApi + sum(stuck))
    yield { text: `${atProvider} at the provider, ${inBooks} in the books, ${inApi} told` };
}

function* nobodyPaysTwice(snapshot: Snapshot): Generator<Breach> {
  const { orders, payments, provider } = snapshot;
  const stuck = new Set(stuckWith(snapshot).map(({ chargeRef }) => chargeRef));
  const orderOf = new Map(payments.map(({ id, orderId }) => [id, orderId]));
  const kept = new Map<string, number>();
  for (const charge of provider.filter(({ kind }) => kind === 'charge')) {
    const { paymentId, ref, amount } = charge;
    const back = provider
      .filter(({ kind, chargeRef, state }) => kind === 'refund' && chargeRef === ref && state !== 'failed')
      .reduce((all, refund) => all + refund.amount, 0);
    if (back > amount) yield { text: `${back} of ${amount} of ${ref} was given back`, paymentId };
    const orderId = orderOf.get(paymentId);
    if (orderId === undefined) yield { text: `${ref} was charged for no payment`, paymentId };
    else if (back < amount && !stuck.has(ref)) kept.set(orderId, (kept.get(orderId) ?? 0) + 1);
  }
  for (const { id } of orders) {
    const live = payments.filter(({ orderId, status }) => orderId === id && /pending|succeeded/.test(status));
    if ((kept.get(id) ?? 0) > 1 || live.length > 1)
      yield {
        text: `order ${id} is paid ${kept.get(id)} times, by ${live.length} live payments`,
        paymentId: live[0]!.id,
      };
  }
}

function* ordersFit({ orders, payments, movements, events }: Snapshot): Generator<Breach> {
  for (const order of orders) {
    const { id, status, livePaymentId, version } = order;
    const paid = payments.find((payment) => payment.orderId === id && payment.status === 'succeeded');
    const fits = paid ? [statusAfter(paid.refundedAmount, paid.amount)] : ['pending', 'cancelled'];
    const paymentId = paid?.id ?? payments.find(({ orderId }) => orderId === id)?.id;
    const concerned = paymentId === undefined ? {} : { paymentId };
    if (!fits.includes(status)) yield { text: `order ${id} is ${status}, not ${fits.join(' or ')}`, ...concerned };
    if (livePaymentId !== (paid?.id ?? null))
      yield { text: `order ${id} is closed for ${livePaymentId}`, ...concerned };
    const own = events.filter(({ subject }) => subject === id);
    const changes = own.length + (paid ? statusChanges(paid, movements) : 0);
    if (version !== changes) yield { text: `order ${id} has ${changes} changes and version ${version}`, ...concerned };
    const life = own.map(({ type }) => type).join(' ');
    if (!ORDER_EVENTS.test(life)) yield { text: `order ${id} tells of ${life}`, ...concerned };
  }
}

function* oneEventPerChange({ payments, refunds, movements, events }: Snapshot): Generator<Breach> {
  for (const { id, status, version } of payments) {
    const own = events.filter(({ subject }) => subject === id);
    yield* lifeFits('payment', id, id, status, own);
    const backs = movements.filter(({ paymentId, kind, surplus }) => paymentId === id && kind !== 'charge' && !surplus);
    const changes = 1 + own.length + backs.length;
    if (version !== changes)
      yield { text: `payment ${id} has ${changes} changes and version ${version}`, paymentId: id };
  }
  for (const { id, paymentId, status, version } of refunds) {
    const own = events.filter(({ subject }) => subject === id);
    yield* lifeFits('refund', id, paymentId, status, own);
    if (version !== 1 + own.length)
      yield { text: `refund ${id} has ${own.length} events and version ${version}`, paymentId };
  }
}

function* lifeFits(
  kind: 'payment' | 'refund',
  id: string,
  paymentId: string,
  status: string,
  own: readonly EventRow[],
): Generator<Breach> {
  const life = own.map(({ type }) => type.slice(kind.length + 1));
  if (!LIVES[kind]!.test(life.join(' ')) || life.at(-1) !== status)
    yield { text: `${kind} ${id} is ${status} and has told of ${life.join(', ')}`, paymentId };
  for (const { data, version } of own)
    if (data.version !== version)
      yield { text: `${kind} ${id} tells of version ${data.version} at ${version}`, paymentId };
  if (life.length > 0 && own.at(-1)!.data.status !== status)
    yield { text: `${kind} ${id} is ${status} and was last told to be ${own.at(-1)!.data.status}`, paymentId };
}

/** How often being paid and given back has changed the order's status. */
function statusChanges(paid: PaymentRow, movements: readonly MovementRow[]): number {
  let refunded = 0;
  let status = 'paid';
  let changes = 1;
  for (const { paymentId, kind, amount, surplus } of movements) {
    if (paymentId !== paid.id || kind === 'charge' || surplus) continue;
    refunded -= amount;
    const next = statusAfter(refunded, paid.amount);
    if (next !== status) changes += 1;
    status = next;
  }
  return changes;
}

function statusAfter(refunded: number, amount: number): string {
  return refunded === 0 ? 'paid' : refunded < amount ? 'partially_refunded' : 'refunded';
}

function toldOf({ status, amount, refundedAmount }: PaymentRow): number {
  return status === 'succeeded' ? amount - refundedAmount : 0;
}

/** Surplus charges that could not be given back, the card being closed: a person has been asked, and nobody else can act. */
function stuckWith({ questions }: Snapshot): SurplusQuestion[] {
  return questions.filter(({ status }) => status === 'returned');
}

function sum(parts: readonly { readonly amount: number }[]): number {
  return parts.reduce((all, { amount }) => all + amount, 0);
}
