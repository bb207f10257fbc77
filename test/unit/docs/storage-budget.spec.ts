import { describe, expect, it } from '@jest/globals';
import { pageAt } from './markdown.js';

const SECONDS = { h: 3_600, d: 86_400 } as const;
const BYTES = { kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 } as const;

const budget = pageAt('docs/retention.md').section('m43-the-storage-budget')!.text;

function bytes(text: string): number {
  const [, number, unit] = /([\d.]+) (kB|MB|GB|TB)/.exec(text)!;
  return Number(number) * BYTES[unit as keyof typeof BYTES];
}

function bytesOf(row: 'key' | 'event' | 'applied message'): number {
  return bytes(new RegExp(`\\ban? ${row} (?:takes )?[\\d.]+ kB`).exec(budget.replace(/\s+/g, ' '))![0]);
}

/** The cells of the table whose first column is called that, its head among them. */
function tableOf(first: string): string[][] {
  const lines = budget.split('\n');
  const head = lines.findIndex((line) => line.startsWith('|') && line.includes(first));
  const rows = lines.slice(
    head,
    lines.findIndex((line, n) => n > head && !line.startsWith('|')),
  );
  return rows
    .filter((_, n) => n !== 1)
    .map((row) =>
      row
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

type Cell = readonly [rate: string, column: string, cell: string, perRow: number];

function cellsOf(first: string, perRow: (column: string) => number): Cell[] {
  const [head, ...rows] = tableOf(first);
  return rows.flatMap(([rate, ...cells]) =>
    cells.map((cell, n): Cell => [rate!, head![n + 1]!, cell, perRow(head![n + 1]!)]),
  );
}

describe('a cell of the storage budget', () => {
  const cells = [
    ...cellsOf('keyed requests/s', () => bytesOf('key')),
    ...cellsOf('events/s', (column) => bytesOf(column.startsWith('outbox') ? 'event' : 'applied message')),
  ];

  it.each(cells)('is rate × retention × bytes: %s a second, %s: %s', (rate, column, cell, perRow) => {
    const [, count, unit] = /(\d+) (h|d)/.exec(column)!;
    const exact = Number(rate) * Number(count) * SECONDS[unit as keyof typeof SECONDS] * perRow;
    expect(Math.abs(bytes(cell) / exact - 1)).toBeLessThan(0.03); // two digits
  });

  it('is there for keys, events and messages', () => {
    expect(cells).toHaveLength(4 * 4 + 4 * 2);
  });
});
