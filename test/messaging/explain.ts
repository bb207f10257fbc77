import type { Statement } from '../../src/database/transaction.js';
import type { TestDatabase } from '../support/test-database.js';

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly PlanNode[];
}

/** What a statement cost. */
export interface Cost {
  /** Pages looked at, from the first to the last node. */
  readonly buffers: number;
  /** Rows that its scans of tables and indexes came upon, with those that a filter removed. */
  readonly visited: number;
  readonly milliseconds: number;
}

/** Runs a statement under EXPLAIN (ANALYZE, BUFFERS). A second time, where the first has warmed up and set its hints. */
export async function costOf(database: TestDatabase, { text, values = [] }: Statement): Promise<Cost> {
  const explain = async () => {
    const [row] = await database.query<{ 'QUERY PLAN': [{ Plan: PlanNode; 'Execution Time': number }] }>(
      `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
      [...values],
    );
    return row!['QUERY PLAN'][0];
  };
  await explain();
  const { Plan: plan, 'Execution Time': milliseconds } = await explain();
  return {
    buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
    visited: nodesOf(plan)
      .filter((node) => /Seq Scan|Index|Bitmap Heap/.test(node['Node Type']))
      .reduce(
        (sum, node) => sum + (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
        0,
      ),
    milliseconds,
  };
}

/** The plan as text, for a person to read. */
export async function planOf(database: TestDatabase, { text, values = [] }: Statement): Promise<string> {
  const rows = await database.query<{ 'QUERY PLAN': string }>(`EXPLAIN (ANALYZE, BUFFERS) ${text}`, [...values]);
  return rows.map((row) => row['QUERY PLAN']).join('\n');
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}
