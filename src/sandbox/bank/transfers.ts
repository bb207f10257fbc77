import { randomBytes } from 'node:crypto';
import { invalid, JsonMembers } from '../json-members.js';
import { recordEffect } from '../ledger.js';
import { json, PlainRefusal, type Reply } from '../reply.js';
import type { Sql } from '../sandbox-database.js';

const LONGEST_REFERENCE = 140;
/** The form of an IBAN (ISO 13616); its check digits are not checked. */
const ACCOUNT = /^[A-Z]{2}\d{2}[A-Z0-9]{8,30}$/;
const CLOSED_ACCOUNT = 'DE00CLOSED0000';

export interface NewTransfer {
  readonly reference: string;
  readonly amount: number;
  readonly currency: string;
  /** An account to collect from, or a collection to give back of. */
  readonly from: { readonly account: string } | { readonly refundOf: string };
}

interface TransferRow {
  readonly id: string;
  readonly reference: string;
  readonly amount: number;
  readonly currency: string;
  readonly account: string;
  readonly refundOf: string | null;
  readonly createdAt: Date;
}

const COLUMNS = 'id, reference, amount, currency, account, refund_of AS "refundOf", created_at AS "createdAt"';

/** @throws PlainRefusal for a body that could never do */
export function readNewTransfer(body: Buffer): NewTransfer {
  const members = JsonMembers.read(body, ['reference', 'amount', 'currency', 'account', 'refundOf']);
  const reference = members.string('reference', LONGEST_REFERENCE);
  const amount = members.integer('amount', 1, Number.MAX_SAFE_INTEGER);
  const currency = members.string('currency', 3);
  if (!/^[A-Z]{3}$/.test(currency))
    throw invalid('currency', 'must be an ISO 4217 code such as EUR', 'currency_invalid');
  if (members.has('account') === members.has('refundOf')) throw invalid('account', 'must be given, or else refundOf');
  const from = members.has('refundOf')
    ? { refundOf: members.string('refundOf', 100) }
    : { account: readAccount(members) };
  return { reference, amount, currency, from };
}

function readAccount(members: JsonMembers): string {
  const account = members.string('account', 1_000);
  if (ACCOUNT.test(account)) return account;
  throw invalid('account', 'must be an IBAN such as DE89370400440532013000', 'account_invalid');
}

/** Knows no key: the same reference a second time is a second transfer. */
export async function createTransfer(sql: Sql, wanted: NewTransfer): Promise<Reply> {
  if ('account' in wanted.from && wanted.from.account === CLOSED_ACCOUNT) {
    return new PlainRefusal(402, 'account_closed', 'The account is closed.').reply;
  }
  const given = 'account' in wanted.from ? wanted.from : await lockCollection(sql, wanted, wanted.from.refundOf);
  if (given instanceof PlainRefusal) return given.reply;
  const refundOf = 'refundOf' in wanted.from ? wanted.from.refundOf : null;
  const [row] = await sql.query<TransferRow>(
    `INSERT INTO sandbox.bank_transfers (id, reference, amount, currency, account, refund_of, created_at)
     VALUES ($1, $2, $3, $4, $5, $6, statement_timestamp()) RETURNING ${COLUMNS}`,
    [newTransferId(), wanted.reference, wanted.amount, wanted.currency, given.account, refundOf],
  );
  const { reference, amount, currency } = row!;
  await recordEffect(sql, { operation: 'bank_transfers.create', reference, amount, currency, idempotencyKey: null });
  return json(201, render(row!));
}

/** Those who give back of one collection queue here, so that all of them together never exceed it. */
async function lockCollection(sql: Sql, wanted: NewTransfer, id: string): Promise<{ account: string } | PlainRefusal> {
  const [collection] = await sql.query<TransferRow>(
    `SELECT ${COLUMNS} FROM sandbox.bank_transfers WHERE id = $1 FOR UPDATE`,
    [id],
  );
  if (!collection) return invalid('refundOf', 'names no transfer', 'transfer_unknown');
  if (collection.refundOf !== null) return invalid('refundOf', 'names a transfer that gives back', 'transfer_unknown');
  if (collection.currency !== wanted.currency)
    return invalid('currency', `must be ${collection.currency}`, 'currency_invalid');
  // In a statement of its own, which sees what others gave back while this one waited for the lock.
  const [sum] = await sql.query<{ back: number }>(
    'SELECT coalesce(sum(amount), 0)::bigint AS back FROM sandbox.bank_transfers WHERE refund_of = $1',
    [id],
  );
  const left = collection.amount - sum!.back;
  if (wanted.amount <= left) return collection;
  return invalid('amount', `is more than the ${left} that is left of the transfer`, 'amount_too_large');
}

/** All transfers with that reference, oldest first: by this alone a caller finds out what happened. */
export async function findTransfers(sql: Sql, query: string): Promise<Reply> {
  const parameters = new URLSearchParams(query);
  const reference = parameters.get('reference');
  if (!reference || reference.includes('\0') || [...parameters.keys()].some((name) => name !== 'reference')) {
    throw invalid('reference', 'must be given in the query, and nothing else');
  }
  const rows = await sql.query<TransferRow>(
    `SELECT ${COLUMNS} FROM sandbox.bank_transfers WHERE reference = $1 ORDER BY seq`,
    [reference],
  );
  return json(200, { data: rows.map(render) });
}

function render({ id, reference, amount, currency, refundOf, createdAt }: TransferRow): object {
  const refund = refundOf !== null && { refundOf };
  return { id, reference, amount, currency, status: 'succeeded', createdAt, ...refund };
}

function newTransferId(): string {
  return `tr_${randomBytes(12).toString('hex')}`;
}
