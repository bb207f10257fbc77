/** Requests per second of the examples. */
const RATES = [10, 100, 1_000];
const WINDOW_HOURS = 24;

/**
 * What the stored keys take on disk, per key.
 *
 * @param {import('./database.js').Database} database
 */
export async function measureStorage(database) {
  const before = await sizes(database);
  await database.row('VACUUM (ANALYZE) idempotency_keys');
  const after = await sizes(database);
  return { before, after };
}

async function sizes(database) {
  return database.row(`
    SELECT count(*)::int AS keys,
           pg_total_relation_size('idempotency_keys')::float8 / count(*) AS total,
           pg_table_size('idempotency_keys')::float8 / count(*) AS "table",
           pg_indexes_size('idempotency_keys')::float8 / count(*) AS indexes,
           avg(octet_length(response_body))::float8 AS body
    FROM idempotency_keys`);
}

/** rate × window × bytes per key, for a few rates. */
export function budget(bytesPerKey) {
  return RATES.map((rate) => ({ rate, keys: rate * WINDOW_HOURS * 3_600 })).map(({ rate, keys }) => ({
    rate,
    hours: WINDOW_HOURS,
    keys,
    bytes: keys * bytesPerKey,
  }));
}
