import { budget } from './storage.js';
import { median } from './series.js';

/**
 * Throughput, latency, processor, and what each request costs at the database.
 *
 * @param {import('./series.js').Series[]} all
 * @param {Map<string, import('./wire.js').Wire>} wires by the name of the series
 */
export function reportSeries(all, wires) {
  const rows = all.map((series) => {
    const of = (member) => series.results.map((result) => result[member]);
    const wire = wires.get(series.name);
    return [
      series.scenario,
      series.target.name,
      median(of('rate')).toFixed(0),
      spread(of('rate'), 0),
      median(of('p50')).toFixed(1),
      median(of('p99')).toFixed(1),
      (median(of('processor')) / 1_000).toFixed(2),
      (median(of('machine')) / 1_000).toFixed(2),
      wire ? String(wire.statements.length) : '',
      wire ? String(wire.waits) : '',
      series.notes(),
    ];
  });
  const head = ['', '', 'requests/s', 'rounds', 'p50 ms', 'p99 ms', 'CPU ms', 'of all', 'statements', 'waits', ''];
  console.log(`\n${table(head, rows)}`);
  const others = all.flatMap((series) => series.results.map((result) => 100 * result.others));
  console.log(
    `\nOther programs took ${median(others).toFixed(0)} % of the machine (${spread(others, 0)} % from round to round).`,
  );
}

/**
 * One series divided by another, round by round: what was noisy in a round was so for both.
 *
 * @param {import('./series.js').Series[]} all
 */
export function reportRatios(all, pairs) {
  const find = (name) => all.find((series) => series.name === name);
  const rows = pairs
    .map(([title, over, under]) => [title, find(over), find(under)])
    .filter(([, over, under]) => over && under)
    .map(([title, over, under]) => {
      const ratios = (member) => over.results.map((result, round) => result[member] / under.results[round][member]);
      return [
        title,
        median(ratios('rate')).toFixed(2),
        spread(ratios('rate'), 2),
        median(ratios('processor')).toFixed(2),
        median(ratios('machine')).toFixed(2),
      ];
    });
  if (rows.length > 0) console.log(`\n${table(['', 'requests/s', 'rounds', 'CPU', 'of all'], rows)}`);
}

/** @param {{ before: Record<string, number>, after: Record<string, number> }} storage */
export function reportStorage({ before, after }) {
  const row = (title, { keys, total, table, indexes, body }) => [title, keys, total, table, indexes, body].map(rounded);
  const head = ['bytes per stored key', 'keys', 'total', 'table', 'indexes', 'body'];
  console.log(`\n${table(head, [row('as it is', before), row('after VACUUM', after)])}`);
  console.log('\nBudget: requests/s × seconds kept × bytes per key');
  for (const { rate, hours, keys, bytes } of budget(before.total)) {
    const gigabytes = (bytes / 1e9).toFixed(1);
    console.log(`  ${rate} requests/s, kept ${hours} h: ${(keys / 1e6).toFixed(1)} million keys, ${gigabytes} GB`);
  }
}

/** Says where the ceiling does not send what the service sends. */
export function reportDifferences(wires, names) {
  for (const name of names) {
    const [ours, theirs] = [wires.get(`service/${name}`), wires.get(`ceiling/${name}`)];
    if (!ours || !theirs) continue;
    const missing = (from, other) => from.filter((sql) => !other.includes(sql)).map((sql) => sql.slice(0, 100));
    const [added, left] = [missing(ours.statements, theirs.statements), missing(theirs.statements, ours.statements)];
    if (added.length + left.length === 0) continue;
    console.log(`\nOn the wire of "${name}" the service and the ceiling differ:`);
    for (const sql of added) console.log(`  service only: ${sql}`);
    for (const sql of left) console.log(`  ceiling only: ${sql}`);
  }
}

function rounded(value) {
  return typeof value === 'number' ? value.toFixed(0) : value;
}

function spread(values, digits) {
  return `${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)}`;
}

/** Columns of text: the first to the left, numbers to the right. */
function table(head, rows) {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column].length)));
  const isNumber = (column) => rows.every((row) => /^[\d.–]*$/.test(row[column]));
  const line = (row) =>
    row
      .map((text, column) => (isNumber(column) ? text.padStart(widths[column]) : text.padEnd(widths[column])))
      .join('  ');
  return all.map((row) => line(row).trimEnd()).join('\n');
}
