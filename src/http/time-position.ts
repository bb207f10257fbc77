import { foreignCursor, type PageQuery, positionOf } from './page-query.js';
import { encodeCursor } from './pagination.js';
import { UuidParam } from './uuid-param.pipe.js';

/** Where a row stands in a list by age. */
export interface TimePosition {
  /** Microseconds since 1970, as a decimal number: a `Date` has only milliseconds. */
  readonly createdAt: string;
  readonly id: string;
}

/** @throws Problem `validation-failed` for a cursor that this service did not make */
export function timePositionOf(query: PageQuery): TimePosition | undefined {
  const parts = positionOf(query, 2);
  if (!parts) return undefined;
  const [createdAt, id] = parts as [string, string];
  if (!/^\d{1,16}$/.test(createdAt) || !UuidParam.isUuid(id)) throw foreignCursor();
  return { createdAt, id };
}

/**
 * A page of rows by age, from a query for one row more than the page has.
 *
 * @param view what clients see of a row
 */
export function pageByTime<Row extends { readonly id: string; readonly position: string }, View>(
  rows: readonly Row[],
  limit: number,
  view: (row: Row) => View,
): { data: View[]; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return { data: page.map(view), nextCursor: last ? encodeCursor([last.position, last.id]) : null };
}
