import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string };
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly datasource?: { readonly uid: string };
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly query: string | { query: string } }[];
  };
}

export const ALERTS_FILE = 'monitoring/alerts.yml';
export const DOCUMENT = readFileSync('docs/monitoring.md', 'utf8');

export const ALERTS = (parse(readFileSync(ALERTS_FILE, 'utf8')) as { groups: { rules: AlertRule[] }[] }).groups.flatMap(
  ({ rules }) => rules,
);

export const DASHBOARD = JSON.parse(
  readFileSync('monitoring/grafana/dashboards/orders-service.json', 'utf8'),
) as Dashboard;

/** Every query of the alerts and of the dashboard, with where it stands. */
export const QUERIES = [
  ...ALERTS.map(({ alert, expr }) => ({ place: `the alert ${alert}`, expr })),
  ...DASHBOARD.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ place: `the panel "${title}"`, expr })),
  ),
];

/** Names as headings of a page are linked to on GitHub. */
export const ANCHORS = [...DOCUMENT.matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
  heading!
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, '')
    .replaceAll(' ', '-'),
);
