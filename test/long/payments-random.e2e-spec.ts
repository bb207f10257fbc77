import { afterAll, describe, expect, it } from '@jest/globals';
import { ServiceProcess } from '../support/service-process.js';
import { waitFor } from '../support/wait-for.js';
import { Clients } from './payments-clients.js';
import { historyOf } from './payments-history.js';
import { type Breach, breachesOf } from './payments-invariants.js';
import { type Plan, planOf } from './payments-plan.js';
import { takeSnapshot } from './payments-snapshot.js';
import { tellAll, whatIsTold } from './payments-told.js';
import { PaymentsWorld } from './payments-world.js';

const FULL = process.env.TEST_FULL === '1';
const FIRST = 20_261_130;
/** `SEED=7` is one run alone, to look at it; `SEED=7 RUNS=100` are a hundred of them. */
const CHOSEN = process.env.SEED === undefined ? undefined : Number(process.env.SEED);
const RUNS = Number(process.env.RUNS ?? (CHOSEN !== undefined ? 1 : FULL ? 30 : 3));
const SEEDS = Array.from({ length: RUNS }, (_, n) => (CHOSEN ?? FIRST) + n);
const SETTLED_WITHIN_MS = 60_000;
const SHOWN = 12;

let world: PaymentsWorld | undefined;
const end = async (): Promise<void> => {
  await world?.stop();
  world = undefined;
};
afterAll(async () => {
  await end();
  await ServiceProcess.killAll();
});

describe('orders, payments and refunds at random, through faults of every kind', () => {
  it.each(SEEDS)(
    'keep every promise about money, seed %d',
    async (seed) => {
      world ??= await PaymentsWorld.start();
      try {
        await play(world, planOf(seed, FULL || CHOSEN !== undefined));
      } catch (error) {
        console.log(`seed ${seed} failed: ${String(error).slice(0, 4_000)}`); // now, and not at the end of all runs
        await end(); // the next run shall not find what this one has left
        throw error;
      }
    },
    400_000,
  );
});

async function play(world: PaymentsWorld, plan: Plan): Promise<void> {
  const begun = performance.now();
  await world.begin(plan);
  const clients = new Clients(world, plan);
  await clients.run();

  // The weather clears, and everybody who is owed an answer asks for it.
  const notHit = await world.provider.count('sandbox.faults');
  await world.sandbox.disarm();
  world.wires.mend();
  await world.sandbox.send('POST', '/sandbox/webhooks', { paused: false });
  await clients.finish(Date.now() + SETTLED_WITHIN_MS);
  const settled = await breachesWhenSettled(world);

  // And once more from the beginning: nothing may come of it.
  const before = await takeSnapshot(world);
  await tellAll(world);
  await clients.repeatAll();
  const after = await takeSnapshot(world);
  const told = await whatIsTold(world, clients);
  console.log(await reportOf(plan, clients, world, { notHit, ms: performance.now() - begun }));

  const breaches = [...settled, ...told, ...clients.faults.map((text): Breach => ({ text }))];
  const shown = await describeBreaches(breaches, world, clients);
  expect(`seed ${plan.seed}: ${breaches.length} breaches\n${shown}`).toBe(`seed ${plan.seed}: 0 breaches\n`);
  expect(after).toEqual(before);
}

/** Waits until everything holds, or as long as it may take: money that came late is found by the reconciler's next look. */
async function breachesWhenSettled(world: PaymentsWorld): Promise<Breach[]> {
  let breaches: Breach[] = [];
  await waitFor(
    async () => {
      const snapshot = await takeSnapshot(world);
      breaches = breachesOf(snapshot);
      const doubtful = world.wires.quiet ? snapshot.questions.filter(({ status }) => status === 'sent') : [];
      for (const { id } of doubtful) await world.decide(id);
      return world.wires.quiet && breaches.length === 0;
    },
    { timeoutMs: SETTLED_WITHIN_MS, description: 'every promise to hold' },
  ).catch(() => undefined);
  return breaches;
}

async function describeBreaches(breaches: readonly Breach[], world: PaymentsWorld, clients: Clients): Promise<string> {
  const lines = breaches.slice(0, SHOWN).map(({ text }) => text);
  const payments = new Set(breaches.flatMap(({ paymentId }) => paymentId ?? []));
  for (const paymentId of [...payments].slice(0, 3)) lines.push(await historyOf(paymentId, world, clients));
  return lines.join('\n');
}

async function reportOf(
  { seed }: Plan,
  { operations, requests, armed }: Clients,
  { database, wires, crashes, stalls, decided }: PaymentsWorld,
  { notHit, ms }: { notHit: number; ms: number },
): Promise<string> {
  const deliveries = requests.reduce((sum, request) => sum + request.deliveries.length, 0);
  const [{ takeovers } = {}] = await database.query<{ takeovers: number }>(
    'SELECT sum(version - 1)::int AS takeovers FROM idempotency_keys',
  );
  return [
    `SEED=${seed} npm run jest -- --testPathPatterns payments-random`,
    `${operations} operations, ${requests.length} keys sent ${deliveries} times, ${takeovers} takeovers`,
    `${armed - notHit} faults hit, ${wires.held} calls held, ${crashes} crashes, ${stalls} stalls`,
    `${await database.count('surplus_charges')} surplus charges, ${await database.count('payment_reviews')} reviews, ${decided} decided`,
    `${Math.round(ms)} ms`,
  ].join('; ');
}
