import { json, type Reply } from '../reply.js';
import type { Sql } from '../sandbox-database.js';
import { parseForm } from './form.js';
import { integerFrom, Parameters } from './parameters.js';
import { badParameter, noSuch } from './stripe-refusal.js';

const LATEST = 999_999_999_999;
const COMPARISONS = { gt: '>', gte: '>=', lt: '<', lte: '<=' } as const;

/** What is listed, and how it looks. */
export interface Listing<Row> {
  readonly url: string;
  /** In words, where an id in a parameter is none of these. */
  readonly kind: string;
  readonly table: 'sandbox.payment_intents' | 'sandbox.refunds';
  readonly select: string;
  /** Parameters that name a column which must equal them. */
  readonly filters: Readonly<Record<string, string>>;
  render(row: Row): object;
  /** What `expand` may name, and what then takes the place of an id. https://docs.stripe.com/api/expanding_objects */
  readonly expandable?: Readonly<Record<string, (sql: Sql, row: Row) => Promise<object>>>;
}

/** Newest first, page by page, as every list of Stripe's: https://docs.stripe.com/api/pagination */
export async function list<Row extends object>(sql: Sql, listing: Listing<Row>, query: string): Promise<Reply> {
  const known = ['limit', 'starting_after', 'ending_before', 'created', 'expand', ...Object.keys(listing.filters)];
  const parameters = new Parameters(parseForm(query), known);
  const limit = parameters.integer('limit', 1, 100) ?? 10;
  const expanded = expandedMembers(parameters, Object.keys(listing.expandable ?? {}));
  const conditions = new Conditions();
  for (const [name, column] of Object.entries(listing.filters)) {
    const value = parameters.string(name);
    if (value !== undefined) conditions.add(`${column} =`, value);
  }
  addCreated(parameters, conditions);
  const after = await positionOf(sql, listing, parameters, 'starting_after');
  const before = await positionOf(sql, listing, parameters, 'ending_before');
  if (after !== undefined && before !== undefined) {
    throw badParameter(
      'starting_after',
      'You may only specify one of these parameters: starting_after, ending_before.',
    );
  }
  if (after !== undefined) conditions.add('t.seq <', after);
  if (before !== undefined) conditions.add('t.seq >', before);
  const rows = await sql.query<Row>(
    `${listing.select} WHERE ${conditions.text} ORDER BY t.seq ${before === undefined ? 'DESC' : 'ASC'} LIMIT ${limit + 1}`,
    conditions.values,
  );
  const page = rows.slice(0, limit);
  if (before !== undefined) page.reverse();
  const data = await Promise.all(
    page.map(async (row) => {
      const item = { ...listing.render(row) };
      for (const name of expanded) Object.assign(item, { [name]: await listing.expandable![name]!(sql, row) });
      return item;
    }),
  );
  return json(200, { object: 'list', data, has_more: rows.length > limit, url: listing.url });
}

function expandedMembers(parameters: Parameters, expandable: readonly string[]): string[] {
  return (parameters.strings('expand') ?? []).map((path) => {
    const member = expandable.find((name) => path === `data.${name}`);
    if (member === undefined) throw badParameter('expand', `This property cannot be expanded (${path}).`);
    return member;
  });
}

class Conditions {
  readonly values: unknown[] = [];
  text = 'true';

  add(left: string, value: unknown): void {
    this.values.push(value);
    this.text += ` AND ${left} $${this.values.length}`;
  }
}

function addCreated(parameters: Parameters, conditions: Conditions): void {
  if (parameters.form.created === undefined) return;
  if (typeof parameters.form.created === 'string') {
    conditions.add('t.created =', integerFrom('created', parameters.form.created, 0, LATEST));
    return;
  }
  const bounds = parameters.object('created', Object.keys(COMPARISONS))!;
  for (const [name, operator] of Object.entries(COMPARISONS)) {
    const second = bounds.integer(name, 0, LATEST);
    if (second !== undefined) conditions.add(`t.created ${operator}`, second);
  }
}

async function positionOf<Row>(
  sql: Sql,
  { table, kind }: Listing<Row>,
  parameters: Parameters,
  name: 'starting_after' | 'ending_before',
): Promise<number | undefined> {
  const id = parameters.string(name);
  if (id === undefined) return undefined;
  const [row] = await sql.query<{ seq: number }>(`SELECT seq FROM ${table} WHERE id = $1`, [id]);
  if (!row) throw noSuch(kind, id, name, 400);
  return row.seq;
}
