import { isDeepStrictEqual } from 'node:util';
import { waitFor } from '../support/wait-for.js';
import type { Clients } from './payments-clients.js';
import type { Breach } from './payments-invariants.js';
import { type Snapshot, takeSnapshot } from './payments-snapshot.js';
import type { PaymentsWorld } from './payments-world.js';

/** Whether what clients were told, answer by answer and event by event, is what has happened. */
export async function whatIsTold(world: PaymentsWorld, clients: Clients): Promise<Breach[]> {
  const snapshot = await takeSnapshot(world);
  const breaches = [...oneAnswerPerKey(clients)];
  for await (const breach of resourcesAsInBooks(snapshot, clients)) breaches.push(breach);
  for await (const breach of everyEventOnce(snapshot, clients)) breaches.push(breach);
  for (const line of complaints(world)) breaches.push({ text: `the log says: ${line}` });
  const webhooks = [...world.wires.webhookStatuses.keys()].filter((status) => ![204, 502, 503].includes(status));
  if (webhooks.length > 0) breaches.push({ text: `webhooks were answered ${webhooks.join(', ')}` });
  return breaches;
}

/** What the service logs as an error; money that came twice is one for whoever runs it, and given back. */
function complaints(world: PaymentsWorld): string[] {
  return world.log(/"level":"(error|fatal)"|^\s+at /).filter((line) => !/surplus_charge/.test(line));
}

/** Sends every webhook once more, in no order. */
export async function tellAll({ sandbox }: PaymentsWorld): Promise<void> {
  const { failed } = (await sandbox.send('POST', '/sandbox/webhooks/redeliver', { order: 'random' })) as {
    failed: number;
  };
  if (failed > 0) throw new Error(`${failed} webhooks were not taken`);
}

function* oneAnswerPerKey({ requests }: Clients): Generator<Breach> {
  for (const { kind, key, path, deliveries } of requests) {
    const finals = deliveries.filter(({ final }) => final).map(({ status, text }) => `${status} ${text}`);
    const different = [...new Set(finals)];
    if (different.length > 1) yield { text: `${kind} ${path} ${key} got several answers: ${different.join(' and ')}` };
  }
}

async function* resourcesAsInBooks({ payments, refunds }: Snapshot, clients: Clients): AsyncGenerator<Breach> {
  for (const { id, status, amount, refundedAmount, version } of payments) {
    const view = (await clients.get(`/v1/payments/${id}`))?.json as Record<string, unknown>;
    const told = {
      status: view.status,
      amount: view.amount,
      refundedAmount: view.refundedAmount,
      version: view.version,
    };
    if (!isDeepStrictEqual(told, { status, amount, refundedAmount, version }))
      yield { text: `payment ${id} is shown as ${JSON.stringify(view)}`, paymentId: id };
  }
  for (const { id, paymentId, status, amount, version } of refunds) {
    const view = (await clients.get(`/v1/refunds/${id}`))?.json as Record<string, unknown>;
    if (view.status !== status || view.amount !== amount || view.version !== version)
      yield { text: `refund ${id} is shown as ${JSON.stringify(view)}`, paymentId };
  }
}

/** A reader of the log gets each event once, and those of one aggregate by version. */
async function* everyEventOnce({ events }: Snapshot, clients: Clients): AsyncGenerator<Breach> {
  const read: { id: string; subject: string; aggregateversion: string }[] = [];
  let after = '';
  await waitFor(
    async () => {
      const page = (await clients.get(`/v1/events?limit=100${after}`, 1))!.json as {
        data: typeof read;
        nextCursor: string;
      };
      read.push(...page.data);
      after = `&after=${encodeURIComponent(page.nextCursor)}`;
      return page.data.length === 0;
    },
    { description: 'the end of the log' },
  );
  const ids = new Set(read.map(({ id }) => id));
  if (ids.size !== read.length) yield { text: `the log shows ${read.length - ids.size} events twice` };
  for (const { id, type, subject } of events) if (!ids.has(id)) yield { text: `the log lacks ${type} of ${subject}` };
  const versions = new Map<string, number>();
  for (const { subject, aggregateversion } of read) {
    const version = Number(aggregateversion);
    if (version <= (versions.get(subject) ?? 0)) yield { text: `the log shows ${subject} at ${version} too late` };
    versions.set(subject, version);
  }
}
