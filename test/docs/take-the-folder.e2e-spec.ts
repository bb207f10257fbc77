import { readdir, readFile } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { ServiceProcess } from '../support/service-process.js';
import { TestDatabase } from '../support/test-database.js';
import { Checkout, hasCurl } from './checkout.js';
import { Guide, ROOT } from './guide.js';

/** What needs no import, or is not there when the service runs. */
const UNSEEN = ['reflect-metadata', 'typescript', '@types/express', '@types/node', '@types/pg'];

/** What the page wants to be installed is there already, and is linked. */
const INSTALL_IS_TOLD = `
  npm() {
    if [ "$1" != install ]; then command npm "$@"; return; fi
    shift
    for name in "$@"; do case $name in -*) ;; *) echo "package $name" ;; esac done
  }
`;

let guide: Guide;
/** Their versions by their names. */
let packages: Map<string, string>;
let checkout: Checkout;
let database: TestDatabase;
let service: ServiceProcess;
beforeAll(async () => {
  guide = await Guide.read('docs/take-the-folder.md');
  checkout = await Checkout.empty();
  const [copy] = guide.under('1.').steps;
  await checkout.sh(copy!.script.replace('../idempotent-orders-service', ROOT));
  const [install] = guide.under('2.').steps;
  const said = await checkout.sh(INSTALL_IS_TOLD + install!.script);
  packages = new Map([...said.matchAll(/^package (.+)@(.+)$/gm)].map(([, name, version]) => [name!, version!]));
  await checkout.install([...packages.keys()]);
  await checkout.follow(guide);
  const [build] = guide.under('6.').steps[0]!.script.split('\n');
  await checkout.sh(build!);
  database = await TestDatabase.createEmpty();
  service = await ServiceProcess.start(
    { DATABASE_URL: database.url },
    { entry: checkout.path('dist/src/main.js'), readyPath: '/problems/not-found' },
  );
});
afterAll(async () => {
  await ServiceProcess.killAll();
  await database?.drop();
  await checkout?.remove();
});

async function importedPackages(): Promise<Set<string>> {
  const files = await readdir(checkout.path('src'), { recursive: true });
  const texts = await Promise.all(
    files.filter((file) => file.endsWith('.ts')).map((file) => checkout.read(`src/${file}`)),
  );
  const names = texts.flatMap((text) => [...text.matchAll(/ from '((?:@[\w-]+\/)?[\w-]+)[^':]*'/g)]);
  return new Set(names.map(([, name]) => name!));
}

describe('a service made of the folders that docs/take-the-folder.md names, and of nothing else', () => {
  beforeEach(() => database.query('TRUNCATE bookings, idempotency_keys'));

  const booking = { room: 'sea-view', night: '2026-12-24' };
  const book = (body: object, key: string, tenant = 'ada') => {
    const headers = { Authorization: `Bearer key-of-${tenant}`, 'Idempotency-Key': key };
    return service.request('POST', '/v1/bookings', { headers, body });
  };
  const effects = async () => ({
    bookings: await database.count('bookings'),
    keys: await database.count('idempotency_keys'),
  });

  it('needs each of the packages that the page installs, in the versions of the project', async () => {
    const imported = await importedPackages();
    const names = [...packages.keys()];
    expect(names.filter((name) => !imported.has(name)).sort()).toEqual([...UNSEEN].sort());

    const { dependencies, devDependencies } = JSON.parse(await readFile(`${ROOT}/package.json`, 'utf8'));
    const ranges = { ...dependencies, ...devDependencies } as Record<string, string>;
    const others = [...packages].filter(
      ([name, version]) => !`${ranges[name]!.replace('^', '')}.`.startsWith(`${version}.`),
    );
    expect(others).toEqual([]);
  });

  it('replays its answer byte for byte, to the tenant whose key it is', async () => {
    const [first, again, other] = [await book(booking, 'k'), await book(booking, 'k'), await book(booking, 'k', 'bob')];

    expect([first.status, again.status, other.status]).toEqual([201, 201, 201]);
    expect(again.body.equals(first.body)).toBe(true);
    expect(again.headers['idempotent-replayed']).toBe('true');
    expect([other.headers['idempotent-replayed'], other.json.id === first.json.id]).toEqual([undefined, false]);
    expect(await effects()).toEqual({ bookings: 2, keys: 2 });
  });

  it('refuses another body under the key', async () => {
    await book(booking, 'k');
    const other = await book({ ...booking, room: 'attic' }, 'k');

    expect([other.status, other.json.code]).toEqual([422, 'idempotency-key-reused']);
    expect(await effects()).toEqual({ bookings: 1, keys: 1 });
  });

  it('executes one of fifty requests that come at once', async () => {
    const answers = await Promise.all(Array.from({ length: 50 }, () => book(booking, 'k')));

    expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
    expect(await effects()).toEqual({ bookings: 1, keys: 1 });
  });

  it('stores a fault of the request, and lets go of the key when a refusal may pass', async () => {
    const invalid = [await book({ room: 'sea-view' }, 'k-1'), await book({ room: 'sea-view' }, 'k-1')];
    expect(invalid.map(({ status }) => status)).toEqual([400, 400]);
    expect(invalid.map(({ headers }) => headers['idempotent-replayed'])).toEqual([undefined, 'true']);

    await book(booking, 'k-2');
    expect((await book(booking, 'k-3')).json.code).toBe('room-taken');
    await database.query('DELETE FROM bookings');
    expect((await book(booking, 'k-3')).status).toBe(201);
    expect(await effects()).toEqual({ bookings: 1, keys: 3 });
  });

  (hasCurl ? it : it.skip)('answers the curl commands of the page as the page says', async () => {
    const { steps } = guide.under('7.');
    expect(steps.filter(({ printed }) => printed.length > 0)).toHaveLength(5);
    expect(await checkout.walk(steps, service.baseUrl)).toEqual([]);
    expect(await effects()).toEqual({ bookings: 1, keys: 1 });
  });
});
