import { parser } from '@prometheus-io/lezer-promql';

/** One series selector of a query: what it names. */
export interface Selector {
  readonly metric: string;
  readonly matchers: readonly { readonly label: string; readonly values: readonly string[] }[];
}

/** What a query names, as Prometheus' own grammar reads it. */
export interface Query {
  readonly selectors: readonly Selector[];
  /** By which it groups or joins. */
  readonly labels: readonly string[];
}

/** Grafana's variables stand where PromQL wants a duration. */
const withoutVariables = (expression: string) => expression.replaceAll(/\$__(rate_interval|range)\b/g, '5m');

/** @throws Error naming the place that is not PromQL */
export function parseQuery(expression: string): Query {
  const text = withoutVariables(expression);
  const selectors: { metric: string; matchers: { label: string; values: string[] }[] }[] = [];
  const labels: string[] = [];
  let inMatchers = false;
  parser.parse(text).iterate({
    enter({ name, type, from, to }) {
      const part = text.slice(from, to);
      if (type.isError) throw new Error(`No PromQL at ${from}: ${text}`);
      if (name === 'VectorSelector') selectors.push({ metric: '', matchers: [] });
      if (name === 'LabelMatchers') inMatchers = true;
      if (name === 'Identifier') selectors.at(-1)!.metric = part;
      if (name === 'LabelName') {
        if (inMatchers) selectors.at(-1)!.matchers.push({ label: part, values: [] });
        else labels.push(part);
      }
      if (name === 'StringLiteral' && inMatchers) {
        selectors
          .at(-1)!
          .matchers.at(-1)!
          .values.push(...part.slice(1, -1).split('|'));
      }
    },
    leave({ name }) {
      if (name === 'LabelMatchers') inMatchers = false;
    },
  });
  return { selectors, labels };
}
