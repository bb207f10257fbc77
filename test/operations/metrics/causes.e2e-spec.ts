import { readFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { SIGNAL_WORDS } from '../../../src/config/telemetry.js';
import { Metrics } from '../../../src/operations/metrics.js';
import { waitFor } from '../../support/wait-for.js';
import { DUPLICATE_CAUSES } from './duplicate-causes.js';
import { MESSAGE_CAUSES } from './message-causes.js';
import { MeteredApp } from './metered-app.js';
import { PROVIDER_CAUSES } from './provider-causes.js';
import { REQUEST_CAUSES } from './request-causes.js';
import { movesBetween, nameOf, scrape } from './scrape.js';

jest.setTimeout(60_000);

const CAUSES = [...REQUEST_CAUSES, ...PROVIDER_CAUSES, ...DUPLICATE_CAUSES, ...MESSAGE_CAUSES];

/** What moves by itself, or elsewhere, and the test that lets it move. */
const MOVED_ELSEWHERE: Readonly<Record<string, string>> = {
  orders_database_connections: 'test/operations/metrics/gauges.e2e-spec.ts',
  orders_messages_dead_total: 'test/broker/metrics.e2e-spec.ts',
};

let app: MeteredApp;
beforeAll(async () => (app = await MeteredApp.start()));
afterAll(() => app.stop());

const scraped = () => scrape(app.paying.as());

describe('the metrics', () => {
  afterEach(() => app.clear());

  it.each(CAUSES)('move when $cause, and no others do', async ({ before, happen, moves }) => {
    const prepared = await before?.(app);
    await app.settled();
    const start = await scraped();

    await happen(app, prepared);
    await app.settled();
    // What is counted behind a commit is counted a moment after others can see the commit.
    const told = () => scraped().then((now) => Object.keys(moves).every((name) => movesBetween(start, now)[name]));
    await waitFor(told, { description: 'the cause to be told of', timeoutMs: 3_000 }).catch(() => undefined);
    expect(movesBetween(start, await scraped())).toEqual(moves);
  });

  it('stand still when nothing happens, requests without a key included', async () => {
    const start = await scraped();
    await app.paying.as().get('/v1/orders');
    await app.paying.as().put('/v1/orders/not-an-id', {});
    expect(movesBetween(start, await scraped())).toEqual({});
  });
});

describe('the tests', () => {
  const moved = [...new Set(CAUSES.flatMap(({ moves }) => Object.keys(moves)))];

  it('let every metric move that is registered', async () => {
    const registered = (await app.get(Metrics).registry.getMetricsAsJSON()).map(({ name }) => name);
    const ours = registered.filter((name) => !/^(process|nodejs)_/.test(name)).sort();
    const names = moved.map((series) => nameOf(series).replace(/_count$/, ''));
    expect([...new Set([...names, ...Object.keys(MOVED_ELSEWHERE)])].sort()).toEqual(ours);
    for (const [name, file] of Object.entries(MOVED_ELSEWHERE)) expect(readFileSync(file, 'utf8')).toContain(name);
  });

  const { keyedOutcome, provider, callOutcome, lookUpOutcome, listOutcome } = SIGNAL_WORDS;
  const { deliveryOutcome, messageOutcome, runOutcome } = SIGNAL_WORDS;
  const money = ['charge', 'refund'];
  const every = (name: string, of: Readonly<Record<string, readonly string[]>>) =>
    Object.entries(of)
      .reduce((all, [label, values]) => all.flatMap((some) => values.map((v) => [...some, `${label}="${v}"`])), [
        [name],
      ] as string[][])
      .map((labels) => ({ series: labels.join(' '), labels }));

  it.each([
    ...every('orders_idempotency_requests_total', { outcome: keyedOutcome }),
    ...every('orders_idempotency_keys', { state: ['in_progress'] }),
    ...every('orders_duplicate_effects_total', { provider, operation: money }),
    ...every('orders_provider_call_seconds', { provider }),
    ...every('orders_provider_call_seconds', { operation: money, outcome: callOutcome }),
    ...every('orders_provider_call_seconds', { operation: ['look_up'], outcome: lookUpOutcome }),
    ...every('orders_provider_call_seconds', { operation: ['list'], outcome: listOutcome }),
    ...every('orders_event_deliveries_total', { outcome: deliveryOutcome }),
    ...every('orders_messages_total', { outcome: messageOutcome }),
    ...every('orders_scheduled_runs_total', { outcome: runOutcome }),
  ])('let every value move that the code can tell: $series', ({ labels }) => {
    expect(moved.filter((series) => labels.every((part) => series.includes(part)))).not.toEqual([]);
  });
});
