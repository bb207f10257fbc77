import { writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { transformFile } from '@swc/core';
import { ServiceProcess, type ServiceRequest } from '../support/service-process.js';
import { TestDatabase } from '../support/test-database.js';
import { Checkout, hasCurl } from './checkout.js';
import { Guide } from './guide.js';

const MAIN = 'dist/src/main.js';
const CONTROLLER = 'src/gift-cards/gift-cards.controller';
const FORGETTING = '8.';

let guide: Guide;
let checkout: Checkout;
let database: TestDatabase;
let environment: Record<string, string>;
beforeAll(async () => {
  guide = await Guide.read('docs/ten-minutes.md');
  checkout = await Checkout.ofProject();
  await checkout.follow(guide.without(FORGETTING));
  await checkout.build('test/gift-cards');
  database = await TestDatabase.create();
  environment = { DATABASE_URL: database.url, SEED_DEMO_TENANTS: 'true' };
  await checkout.sh('npm run migrate', environment);
});
afterAll(async () => {
  await ServiceProcess.killAll();
  await database?.drop();
  await checkout?.remove();
});

describe('an endpoint made by following docs/ten-minutes.md to the letter', () => {
  let service: ServiceProcess;
  beforeAll(async () => (service = await ServiceProcess.start(environment, { entry: checkout.path(MAIN) })));
  afterAll(() => service.stop());
  beforeEach(() => database.clear());

  const card = { code: 'SUMMER-2026-0001', amount: 5000 };
  const issue = (body: object, key: string) => {
    const headers = { Authorization: 'Bearer sk_demo_acme', 'Idempotency-Key': key };
    return service.request('POST', '/v1/gift-cards', { headers, body } satisfies ServiceRequest);
  };
  const effects = async () => ({
    cards: await database.count('gift_cards'),
    events: await database.count('outbox', `type = 'gift-card.issued'`),
    keys: await database.count('idempotency_keys'),
  });

  it('replays its answer byte for byte', async () => {
    const first = await issue(card, 'key-1');
    const again = await issue(
      { clientContext: { attempt: 2 }, amount: 5e3, code: card.code, currency: 'EUR' },
      'key-1',
    );

    expect([first.status, first.headers['idempotent-replayed']]).toEqual([201, undefined]);
    expect([again.status, again.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect(again.body.equals(first.body)).toBe(true);
    expect(again.headers.location).toBe(first.headers.location);
    expect(await effects()).toEqual({ cards: 1, events: 1, keys: 1 });
  });

  it('refuses another body under the key', async () => {
    await issue(card, 'key-1');
    const other = await issue({ ...card, amount: 50 }, 'key-1');

    expect([other.status, other.json.code]).toEqual([422, 'idempotency-key-reused']);
    expect(await effects()).toEqual({ cards: 1, events: 1, keys: 1 });
  });

  it('executes one of fifty requests that come at once', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => issue(card, 'key-1')));

    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(answers.filter(({ headers }) => headers['idempotent-replayed'] === undefined)).toHaveLength(1);
    expect(await effects()).toEqual({ cards: 1, events: 1, keys: 1 });
  });

  it('makes one card of a code under many keys at once, and stores the refusals', async () => {
    const keys = Array.from({ length: 10 }, (_, index) => `key-${index}`);
    const answers = await Promise.all(keys.map((key) => issue(card, key)));
    const again = await Promise.all(keys.map((key) => issue(card, key)));

    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array<number>(9).fill(409)]);
    expect(again.map(({ text }) => text)).toEqual(answers.map(({ text }) => text));
    expect(await effects()).toEqual({ cards: 1, events: 1, keys: 10 });
  });

  (hasCurl ? it : it.skip)('answers the curl commands of the page as the page says', async () => {
    const { steps } = guide.under('7.');
    expect(steps.filter(({ printed }) => printed.length > 0)).toHaveLength(5);
    expect(await checkout.walk(steps, service.baseUrl)).toEqual([]);
    expect(await effects()).toEqual({ cards: 2, events: 2, keys: 3 });
  });
});

it('the commands of the page write the API description and the client types, and its test passes', async () => {
  const [commands] = guide.under('6.').steps;
  await checkout.sh(commands!.script, { DATABASE_URL: process.env.TEST_SERVER_URL! });

  const { paths, components } = JSON.parse(await checkout.read('openapi.json')) as Record<string, object>;
  expect(Object.keys(paths!)).toEqual(expect.arrayContaining(['/v1/gift-cards', '/v1/gift-cards/{id}']));
  expect(components).toHaveProperty('examples.duplicate-gift-card');
  expect(await checkout.read('src/client/api-types.ts')).toContain('duplicate-gift-card');
});

it('without the decorator the service does not start, and says what the page says', async () => {
  const forgetting = guide.under(FORGETTING);
  await checkout.follow(forgetting);
  const { code } = await transformFile(checkout.path(`${CONTROLLER}.ts`), { root: checkout.folder, sourceMaps: false });
  await writeFile(checkout.path(`dist/${CONTROLLER}.js`), code);

  const refused = ServiceProcess.start(environment, { entry: checkout.path(MAIN) });
  const said = forgetting.blocks.find(({ kind }) => kind === 'output')!.text;
  await expect(refused).rejects.toThrow(said);
});
