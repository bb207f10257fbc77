/** A page of a list. */
export interface Page<Row> {
  readonly data: Row[];
  /** Where the next page begins; null when this is the last. */
  readonly nextCursor: string | null;
}

export type Query = Readonly<Record<string, string | number | undefined>>;

/** A path with a query of what is given. */
export function pathWith(path: string, query: Query): string {
  const given = Object.entries(query).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
  const search = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString();
  return search === '' ? path : `${path}?${search}`;
}

/**
 * Follows `nextCursor` to the end: to the page without one, or (of the event log, where there always is one) to an empty
 * page.
 *
 * @throws Error when a page points to itself: without an end it would be asked for for ever
 */
export async function* pagesOf<Row>(
  query: Query,
  get: (query: Query) => Promise<Page<Row>>,
): AsyncGenerator<Page<Row>> {
  let after = query.after;
  for (;;) {
    const page = await get({ ...query, after });
    yield page;
    const next = page.nextCursor ?? undefined;
    if (next === undefined || page.data.length === 0) return;
    if (next === after) throw new Error(`The page after ${next} points to itself`);
    after = next;
  }
}

export async function* rowsOf<Row>(pages: AsyncGenerator<Page<Row>>): AsyncGenerator<Row> {
  for await (const { data } of pages) yield* data;
}
