import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.js';
import { useOrStartSandbox } from '../../src/sandbox/use-or-start-sandbox.js';
import { TestDatabase } from '../support/test-database.js';
import { stripeAt, TestSandbox } from '../support/test-sandbox.js';
import { card } from './charges.js';

let database: TestDatabase;
const opened: { stop(): Promise<unknown> }[] = [];
beforeAll(async () => {
  database = await TestDatabase.create();
});
afterEach(async () => {
  for (const one of opened.splice(0)) await one.stop();
});
afterAll(() => database.drop());

const start = async (port = 0): Promise<Sandbox> => {
  const sandbox = await useOrStartSandbox({ databaseUrl: database.url, port });
  opened.push(sandbox);
  return sandbox;
};

async function occupy(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  opened.push({ stop: () => new Promise((resolve) => server.close(resolve)) });
  return (server.address() as AddressInfo).port;
}

describe('a sandbox', () => {
  it('goes on after a restart as if nothing had been', async () => {
    const provider = await TestSandbox.start();
    try {
      const idempotencyKey = randomUUID();
      const intent = await provider.stripe.paymentIntents.create(card(), { idempotencyKey });
      await provider.arm('payment_intents.create', 'error-503');
      const ledger = await provider.ledger();
      await provider.restart();

      expect(await provider.ledger()).toEqual(ledger);
      const outcomes = [];
      for (let n = 0; n < 2; n += 1) {
        outcomes.push(
          await provider.stripe.paymentIntents.create(card(), { idempotencyKey }).then(
            ({ id }) => id,
            ({ statusCode }: { statusCode: number }) => statusCode,
          ),
        );
      }
      expect(outcomes).toEqual([503, intent.id]);
      expect((await provider.ledger()).effects.length).toBe(1);
    } finally {
      await provider.stop();
    }
  });

  it('shares its database with others: started at once, they make its schema once and know the same', async () => {
    const fresh = await TestDatabase.create();
    const sandboxes = await Promise.all(
      Array.from({ length: 4 }, () => startSandbox({ databaseUrl: fresh.url, port: 0 })),
    );
    try {
      const idempotencyKey = randomUUID();
      const charges = [];
      for (const { url } of sandboxes) {
        charges.push(await stripeAt(url).paymentIntents.create(card(), { idempotencyKey }));
      }
      expect(new Set(charges.map(({ id }) => id)).size).toBe(1);
      expect(await fresh.count('sandbox.effects')).toBe(1);
      expect(await fresh.count('pg_tables', `schemaname = 'public' AND tablename LIKE '%payment_intents%'`)).toBe(0);
    } finally {
      await Promise.all(sandboxes.map((sandbox) => sandbox.stop()));
      await fresh.drop();
    }
  });

  it('answers what it does not know with 404, in the manner of whom it stands in for', async () => {
    const { url } = await start();
    const get = async (path: string, method = 'GET') => {
      const response = await fetch(`${url}${path}`, { method, headers: { Authorization: 'Bearer sk_test_x' } });
      return [response.status, Object.keys(((await response.json()) as { error: object }).error)];
    };

    expect(await get('/v1/customers')).toEqual([404, ['type', 'message']]);
    expect(await get('/v1/payment_intents', 'DELETE')).toEqual([404, ['type', 'message']]);
    expect(await get('/v1/payment_intents/pi_1/nothing/more')).toEqual([404, ['type', 'message']]);
    expect(await get('/bank/accounts')).toEqual([404, ['code', 'message']]);
    expect(await get('/sandbox/*/fail', 'POST')).toEqual([404, ['code', 'message']]);
    expect(await get('/')).toEqual([404, ['code', 'message']]);
  });

  it('refuses to start where NODE_ENV is production', async () => {
    const { NODE_ENV } = process.env;
    process.env.NODE_ENV = 'production';
    try {
      await expect(startSandbox({ databaseUrl: database.url, port: 0 })).rejects.toMatchObject({
        name: 'SandboxError',
        message: expect.stringContaining('production'),
      });
    } finally {
      process.env.NODE_ENV = NODE_ENV;
    }
  });

  it('says so when its database cannot be used, and tells no password', async () => {
    const starting = startSandbox({ databaseUrl: 'postgres://u:hunter2@127.0.0.1:1/x', port: 0 });

    await expect(starting).rejects.toMatchObject({
      name: 'SandboxError',
      message: expect.not.stringContaining('hunter2'),
    });
  });

  it('survives its database going away for a moment', async () => {
    const provider = await TestSandbox.start();
    try {
      const [first] = [await provider.stripe.paymentIntents.create(card())];
      await database.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'orders-service sandbox' AND datname = $1`,
        [new URL(provider.database.url).pathname.slice(1)],
      );
      const retried = await provider.stripe.paymentIntents.retrieve(first.id).catch(() => undefined);
      const again = retried ?? (await provider.stripe.paymentIntents.retrieve(first.id));
      expect(again.id).toBe(first.id);
    } finally {
      await provider.stop();
    }
  });
});

describe('a service that needs a sandbox', () => {
  it('uses the one that answers on the port, and does not end it', async () => {
    const first = await start();
    const second = await useOrStartSandbox({ databaseUrl: 'postgres://nobody@127.0.0.1:1/x', port: first.port });

    expect([second.url, second.port]).toEqual([first.url, first.port]);
    second.sendWebhooksTo(undefined);
    await second.stop();
    expect((await fetch(`${first.url}/sandbox/health`)).status).toBe(200);
  });

  it('starts one where nothing listens; two that start at once share one', async () => {
    const free = createServer();
    const port = await occupy(free);
    await opened.pop()!.stop();
    const [one, other] = await Promise.all([start(port), start(port)]);

    expect([one.port, other.port]).toEqual([port, port]);
    expect(await (await fetch(`${other.url}/sandbox/health`)).json()).toEqual({ sandbox: 'idempotent-orders' });
  });

  it.each<[string, () => Server]>([
    ['a web server', () => createHttpServer((_, response) => response.end('{"status":"ok"}'))],
    ['a web server that fails', () => createHttpServer((_, response) => response.writeHead(500).end('null'))],
    [
      'something that speaks otherwise',
      () =>
        createServer((socket) =>
          socket
            .on('error', () => 0)
            .resume()
            .end('220 hello\r\n'),
        ),
    ],
    ['something that says nothing', () => createServer((socket) => socket.on('error', () => 0).resume())],
  ])('does not start beside %s on that port, and says why', async (_, serve) => {
    const port = await occupy(serve());

    await expect(start(port)).rejects.toMatchObject({
      name: 'SandboxError',
      message: expect.stringMatching(new RegExp(`port ${port}.*SANDBOX_PORT`)),
    });
  });
});
