import type { Clients } from './payments-clients.js';
import type { PaymentsWorld } from './payments-world.js';

/** All that is on record about a payment, for a person to find out what went wrong. */
export async function historyOf(paymentId: string, world: PaymentsWorld, clients: Clients): Promise<string> {
  const { database, provider } = world;
  const rows = async (of: typeof database, what: string, sql: string) =>
    (await of.query(sql, [paymentId])).map((row) => `  ${what}: ${JSON.stringify(row)}`);
  const [payment] = await database.query<{ order_id: string }>('SELECT * FROM payments WHERE id = $1', [paymentId]);
  const refunds = await database.query<{ id: string }>('SELECT id FROM refunds WHERE payment_id = $1', [paymentId]);
  const about = [paymentId, payment?.order_id, ...refunds.map(({ id }) => id)];
  const requests = clients.requests.filter(({ path, deliveries }) =>
    about.some((id) => id && (path.includes(id) || deliveries.some(({ text }) => text.includes(id)))),
  );
  const deliveries = requests
    .flatMap(({ kind, key, path, body, deliveries }) => deliveries.map((one) => ({ kind, key, path, body, ...one })))
    .sort((one, other) => one.at - other.at)
    .map(({ at, kind, key, path, body, process, status, text }) => {
      const when = new Date(at).toISOString();
      return `  ${when} ${kind} ${path} ${JSON.stringify(body)} under ${key} at process ${process}: ${status ?? 'no answer'} ${text}`;
    });
  return [
    `history of payment ${paymentId}`,
    ...deliveries,
    ...(await rows(database, 'order', 'SELECT * FROM orders WHERE id = (SELECT order_id FROM payments WHERE id = $1)')),
    ...(await rows(database, 'payment', 'SELECT * FROM payments WHERE id = $1')),
    ...(await rows(database, 'refund', 'SELECT * FROM refunds WHERE payment_id = $1 ORDER BY created_at')),
    ...(await rows(database, 'movement', 'SELECT * FROM money_movements WHERE payment_id = $1 ORDER BY created_at')),
    ...(await rows(database, 'surplus', 'SELECT * FROM surplus_charges WHERE payment_id = $1')),
    ...(await rows(database, 'review', 'SELECT * FROM payment_reviews WHERE payment_id = $1')),
    ...(await rows(
      database,
      'event',
      `SELECT created_at, type, aggregateversion, payload FROM outbox
       WHERE aggregateid = $1 OR aggregateid IN (SELECT id FROM refunds WHERE payment_id = $1) ORDER BY created_at`,
    )),
    ...(await rows(
      provider,
      'at the provider',
      `SELECT i.id, i.status, i.amount, to_timestamp(i.created) AS created, i.metadata,
              (SELECT jsonb_agg(r) FROM sandbox.refunds r WHERE r.payment_intent = i.id) AS refunds
       FROM sandbox.payment_intents i WHERE i.metadata->>'payment' = $1`,
    )),
    ...(await rows(
      provider,
      'at the bank',
      `SELECT * FROM sandbox.bank_transfers WHERE reference = $1
         OR refund_of IN (SELECT id FROM sandbox.bank_transfers WHERE reference = $1) ORDER BY seq`,
    )),
    ...(await rows(
      provider,
      'webhook',
      `SELECT id, type, attempts, delivered_at, payload::jsonb->'data'->'object'->>'id' AS object,
              payload::jsonb->'data'->'object'->>'status' AS status
       FROM sandbox.events WHERE payload LIKE '%' || $1 || '%' ORDER BY seq`,
    )),
    ...world.log(new RegExp(about.filter(Boolean).join('|'))).map((line) => `  log: ${line}`),
  ].join('\n');
}
