import { expect } from '@jest/globals';
import type { ApiClient } from '../../support/api-client.js';

/** Samples by their name and labels as Prometheus would read them: `orders_outbox_pending`, `name{label="value"}`. */
export type Samples = Readonly<Record<string, number>>;

/** What a service exports now. */
export async function scrape(client: ApiClient): Promise<Samples> {
  const { status, headers, text } = await client.get('/metrics');
  expect([status, headers['content-type']]).toEqual([200, 'text/plain; version=0.0.4; charset=utf-8']);
  const samples = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return Object.fromEntries(
    samples.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

export const nameOf = (series: string): string => series.replace(/\{.*/s, '');

/** What moves by itself: the process's own figures, connections that come and go, and the estimate of Postgres. */
const MOVES_BY_NATURE =
  /^(process_|nodejs_|orders_database_connections\b|orders_idempotency_keys\{state="completed"\})/;
/** A histogram's sum and buckets move with its count. */
const WITH_COUNT = /^orders_\w+_(sum|bucket)\b/;
const AGE = /^orders_(?!provider)\w+_seconds$/;

/**
 * Whatever is different between two scrapes, and by how much; ages in whole hours. A series that was not there counts as 0.
 */
export function movesBetween(before: Samples, after: Samples): Samples {
  const figure = (samples: Samples, series: string) => {
    const value = samples[series] ?? 0;
    return AGE.test(series) ? Math.floor(value / 3_600) : value;
  };
  const all = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return Object.fromEntries(
    all
      .filter((series) => !MOVES_BY_NATURE.test(series) && !WITH_COUNT.test(series))
      .map((series) => [series, figure(after, series) - figure(before, series)] as const)
      .filter(([, by]) => by !== 0),
  );
}
