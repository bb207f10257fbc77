import { SchedulerRegistry } from '@nestjs/schedule';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { SIGNAL_WORDS } from '../../../src/config/telemetry.js';
import { Metrics } from '../../../src/operations/metrics.js';
import { TestApp } from '../../support/test-app.js';
import { ALERTS, ANCHORS, DASHBOARD, DOCUMENT, QUERIES } from './monitoring-files.js';
import { parseQuery, type Selector } from './promql.js';

/** Labels that Prometheus gives to what it scrapes, and the series that it makes itself. */
const OF_TARGETS = ['job', 'instance'];
const MADE_BY_PROMETHEUS = ['up'];

interface Exported {
  readonly labels: readonly string[];
  /** Every value that a label can have, where that is known. */
  readonly values: Readonly<Record<string, readonly string[]>>;
}

let service: TestApp;
/** By every name under which Prometheus stores samples. */
let exported: Map<string, Exported>;
let ours: string[];

beforeAll(async () => {
  service = await TestApp.start();
  const { text } = await service.as().get('/metrics');
  const works = service.app.get(SchedulerRegistry, { strict: false }).getIntervals();
  const { registry } = service.app.get(Metrics);
  exported = new Map();
  for (const [, name, type] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    const { labelNames } = registry.getSingleMetric(name!) as unknown as { labelNames: string[] };
    const values = {
      ...sampleValues(text, name!),
      ...KNOWN_VALUES[name!],
      ...(labelNames.includes('work') && { work: works }),
    };
    if (type !== 'histogram') exported.set(name!, { labels: labelNames, values });
    else {
      for (const suffix of ['sum', 'count']) exported.set(`${name}_${suffix}`, { labels: labelNames, values });
      exported.set(`${name}_bucket`, { labels: [...labelNames, 'le'], values });
    }
  }
  ours = [...text.matchAll(/^# TYPE (orders_\S+) /gm)].map(([, name]) => name!);
});
afterAll(() => service.stop());

const { keyedOutcome, provider, callOutcome, lookUpOutcome, listOutcome } = SIGNAL_WORDS;
const { deliveryOutcome, messageOutcome, runOutcome } = SIGNAL_WORDS;
const KNOWN_VALUES: Readonly<Record<string, Exported['values']>> = {
  orders_idempotency_requests_total: { outcome: keyedOutcome },
  orders_provider_call_seconds: {
    provider,
    operation: ['charge', 'refund', 'look_up', 'list'],
    outcome: [...callOutcome, ...lookUpOutcome, ...listOutcome],
  },
  orders_event_deliveries_total: { outcome: deliveryOutcome },
  orders_messages_total: { outcome: messageOutcome },
  orders_scheduled_runs_total: { outcome: runOutcome },
};

/** Of a metric that shows all its values from the start. */
function sampleValues(text: string, name: string): Record<string, string[]> {
  const values: Record<string, string[]> = {};
  for (const [, labels] of text.matchAll(new RegExp(`^${name}\\{(.*)\\} `, 'gm'))) {
    for (const [, label, value] of labels!.matchAll(/(\w+)="([^"]*)"/g)) (values[label!] ??= []).push(value!);
  }
  return values;
}

/** What of a selector does not exist. */
function unknownIn({ metric, matchers }: Selector): string[] {
  if (MADE_BY_PROMETHEUS.includes(metric))
    return matchers.flatMap(({ label }) => (OF_TARGETS.includes(label) ? [] : [label]));
  const found = exported.get(metric);
  if (!found) return [metric];
  return matchers.flatMap(({ label, values }) => {
    if (OF_TARGETS.includes(label)) return [];
    if (!found.labels.includes(label)) return [`${metric}{${label}}`];
    return values
      .filter((value) => !found.values[label]?.includes(value))
      .map((value) => `${metric}{${label}="${value}"}`);
  });
}

describe('the queries of dashboard and alerts', () => {
  it.each(QUERIES)('name only what is exported: $place: $expr', ({ expr }) => {
    const { selectors, labels } = parseQuery(expr);
    expect(selectors).not.toEqual([]);
    expect(selectors.flatMap(unknownIn)).toEqual([]);
    const grouped = [...OF_TARGETS, ...selectors.flatMap(({ metric }) => exported.get(metric)?.labels ?? [])];
    expect(labels.filter((label) => !grouped.includes(label))).toEqual([]);
  });

  it.each(QUERIES)(
    'count what is of the whole database once, however many replicas show it: $place: $expr',
    ({ expr }) => {
      const wide = ours.filter((name) =>
        /^orders_(idempotency_(keys|oldest|expiry)|outbox|payments?_|refunds|surplus)/.test(name),
      );
      expect(wide).toHaveLength(11);
      for (const { metric } of parseQuery(expr).selectors.filter(({ metric }) => wide.includes(metric))) {
        expect(expr).toMatch(new RegExp(`(max( by \\([a-z, ]+\\))? ?\\(|absent\\()${metric}\\b`));
      }
    },
  );

  it('read counters by how much they grow', () => {
    const counters = /\b(\w+_total|\w+_(count|bucket))\b(\{[^}]*\})?(?!\{|\w)(\[)?/g;
    for (const { expr } of QUERIES) {
      for (const [whole, , , , range] of expr.matchAll(counters)) expect([whole, range]).toEqual([whole, '[']);
    }
  });

  it('name each metric of ours, or the documentation does', () => {
    const queried = QUERIES.flatMap(({ expr }) => parseQuery(expr).selectors.map(({ metric }) => metric));
    const named = (name: string) => queried.some((metric) => metric.replace(/_(bucket|sum|count)$/, '') === name);
    expect(ours.filter((name) => !named(name))).toEqual([]);
    expect(ours.filter((name) => !DOCUMENT.includes(`\`${name}\``))).toEqual([]);
  });
});

describe('the documentation', () => {
  it('names no metric that does not exist', () => {
    const mentioned = [...new Set([...DOCUMENT.matchAll(/\b(orders_\w+)\b/g)].map(([, name]) => name!))];
    expect(mentioned.filter((name) => !ours.includes(name) && !exported.has(name))).toEqual([]);
  });

  it('tells every word that a metric can say, in the row of that metric', () => {
    for (const [name, labels] of Object.entries(KNOWN_VALUES)) {
      const row = DOCUMENT.split('\n').find((line) => line.startsWith(`| \`${name}\``))!;
      for (const value of Object.values(labels).flat())
        expect([name, row]).toEqual([name, expect.stringContaining(`\`${value}\``)]);
    }
  });

  it.each(ALERTS)('has a section for $alert, to which the alert points', ({ alert, annotations, labels }) => {
    expect(annotations.runbook_url).toBe(`docs/monitoring.md#${alert.toLowerCase()}`);
    expect(ANCHORS).toContain(alert.toLowerCase());
    expect(annotations.summary).not.toBe('');
    expect(annotations.description).not.toBe('');
    expect(['critical', 'warning']).toContain(labels.severity);
  });

  it('has no section for an alert that is not there', () => {
    const sections = [...DOCUMENT.matchAll(/^#+ (Orders\w+)$/gm)].map(([, name]) => name!);
    expect(sections.sort()).toEqual(ALERTS.map(({ alert }) => alert).sort());
  });
});

describe('the dashboard', () => {
  it('takes its data source and its job from variables', () => {
    const panels = DASHBOARD.panels.filter(({ type }) => type !== 'row');
    expect(DASHBOARD.templating.list.map(({ name }) => name)).toEqual(['datasource', 'job']);
    for (const { title, datasource, targets = [] } of panels) {
      expect([title, datasource?.uid]).toEqual([title, '${datasource}']);
      expect(targets).not.toEqual([]);
      for (const target of targets) {
        expect(target.datasource.uid).toBe('${datasource}');
        for (const { matchers } of parseQuery(target.expr).selectors)
          expect(matchers).toContainEqual({ label: 'job', values: ['$job'] });
      }
    }
    const { query } = DASHBOARD.templating.list[1]!.query as { query: string };
    expect(exported.has(/^label_values\((\w+), job\)$/.exec(query)![1]!)).toBe(true);
  });

  it('begins with the duplicate rate, replays, conflicts, store size and expiry lag', () => {
    const [row, ...next] = DASHBOARD.panels;
    expect(row!.type).toBe('row');
    expect(next.slice(0, 5).map(({ title }) => title)).toEqual([
      'Duplicate rate',
      'Replays',
      'Conflicts',
      'Stored keys',
      'Expiry lag',
    ]);
    expect(next.slice(0, 5).map(({ gridPos }) => gridPos.y)).toEqual([1, 1, 1, 1, 1]);
  });

  it('shows no two panels in one place, and each under an id of its own', () => {
    const { panels } = DASHBOARD;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const overlap = (one: (typeof panels)[0], other: (typeof panels)[0]) =>
      one.gridPos.x < other.gridPos.x + other.gridPos.w &&
      other.gridPos.x < one.gridPos.x + one.gridPos.w &&
      one.gridPos.y < other.gridPos.y + other.gridPos.h &&
      other.gridPos.y < one.gridPos.y + one.gridPos.h;
    const pairs = panels.flatMap((one, at) => panels.slice(at + 1).map((other) => [one, other] as const));
    expect(pairs.filter(([one, other]) => overlap(one, other)).map(([one, other]) => [one.title, other.title])).toEqual(
      [],
    );
  });
});
