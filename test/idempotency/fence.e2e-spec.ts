import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Injectable, Post } from '@nestjs/common';
import { Problem } from '../../src/http/problem.js';
import { ServiceUnavailable, ValidationFailed } from '../../src/http/problems.js';
import { Idempotent } from '../../src/idempotency/idempotent.decorator.js';
import { KeyClaims } from '../../src/idempotency/key-claims.js';
import { type Completion, CurrentOperation, Operation } from '../../src/idempotency/operation.js';
import type { ApiResponse } from '../support/api-client.js';
import { TestApp } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';
import { Gate } from '../support/test-routes.js';
import { waitFor } from '../support/wait-for.js';

type Script = (operation: Operation) => Promise<Completion>;

/** What the handler of one process does. */
@Injectable()
class Scripted {
  script!: Script;
}

@Controller({ path: 'test', version: '1' })
class LeasedRoutes {
  constructor(private readonly scripted: Scripted) {}

  @Post('leased')
  @Idempotent({ endpoint: 'test.leased', mode: 'leased' })
  leased(@CurrentOperation() operation: Operation): Promise<Completion> {
    return this.scripted.script(operation);
  }
}

const step = (operation: Operation, who: string) =>
  operation.step('outside', async (transaction) => {
    await transaction.query('INSERT INTO written VALUES ($1)', [who]);
    return who;
  });

const complete = (operation: Operation, who: string) =>
  operation.complete('done', async (transaction) => {
    await transaction.query('INSERT INTO written VALUES ($1)', [`${who}, at last`]);
    return { status: 201, headers: { 'Content-Type': 'text/plain' }, body: Buffer.from(who) };
  });

/** What an owner does that has lost its lease without noticing. */
const LATE: [string, Script][] = [
  ['takes a step', async (operation) => (await step(operation, 'late'), complete(operation, 'late'))],
  ['completes', (operation) => complete(operation, 'late')],
  ['refuses', () => Promise.reject(new Problem(ValidationFailed, 'late'))],
  ['ends without an answer', () => Promise.reject(new Problem(ServiceUnavailable, 'late'))],
];

/** What it has done before. */
const BEFORE: [string, ((operation: Operation) => Promise<unknown>) | undefined][] = [
  ['before its first step', undefined],
  ['after its first step', (operation) => step(operation, 'early')],
];

describe('K5: an owner whose lease was lost without its noticing', () => {
  let database: TestDatabase;
  let first: TestApp;
  let second: TestApp;
  /** How often the first process began to try for the key: once more when it has noticed. */
  let tries = 0;

  beforeAll(async () => {
    database = await TestDatabase.create();
    await database.query('CREATE TABLE written (who text NOT NULL)');
    const parts = { database, controllers: [LeasedRoutes], providers: [Scripted] };
    first = await TestApp.start({ IDEMPOTENCY_WAIT: '10s' }, parts);
    second = await TestApp.start({ IDEMPOTENCY_WAIT: '10s' }, parts);
    const claims = first.app.get(KeyClaims);
    const decide = claims.decide.bind(claims);
    claims.decide = (...given) => {
      tries += 1;
      return decide(...given);
    };
  });
  beforeEach(async () => {
    tries = 0;
    await database.clear();
  });
  afterAll(async () => {
    await first.app.close();
    await second.stop();
  });

  const send = (app: TestApp, script: Script): Promise<ApiResponse> => {
    app.app.get(Scripted).script = script;
    return app.as().post('/v1/test/leased', {}, 'k');
  };
  const lapse = () => database.query('UPDATE idempotency_keys SET lease_until = statement_timestamp()');
  const written = async () => (await database.query<{ who: string }>('SELECT who FROM written')).map(({ who }) => who);
  const keys = () => database.query('SELECT xmin, * FROM idempotency_keys');

  /** An owner that does nothing before its gate is opened, after which it acts as if nothing had happened. */
  const stall = async (before: ((operation: Operation) => Promise<unknown>) | undefined, late: Script) => {
    const gate = new Gate();
    const answer = send(first, async (operation) => {
      await before?.(operation);
      await gate.pass();
      return late(operation);
    });
    await gate.reached;
    await lapse();
    return { answer, wake: () => gate.open() };
  };
  /** A new owner that is at work until its gate is opened. */
  const takeOver = async () => {
    const working = new Gate();
    const taken = send(second, async (operation) => {
      await working.pass();
      return complete(operation, 'new');
    });
    await working.reached;
    return { taken, working };
  };
  const hasNoticed = () => waitFor(() => tries === 2, { description: 'the late owner to try for the key again' });
  const expectSame = (late: ApiResponse) => {
    expect([late.status, late.text, late.headers['idempotent-replayed']]).toEqual([201, 'new', 'true']);
  };

  describe.each(LATE)('%s', (_, late) => {
    describe.each(BEFORE)('%s', (_, before) => {
      it('behind a new owner that has finished: writes nothing and gets its answer', async () => {
        const { answer, wake } = await stall(before, late);
        expect((await send(second, (operation) => complete(operation, 'new'))).status).toBe(201);
        const [rows, key] = [await written(), await keys()];

        wake();
        expectSame(await answer);
        expect(await written()).toEqual(rows);
        expect(await keys()).toEqual(key);
      });

      it('behind a new owner that is at work: writes nothing and waits', async () => {
        const { answer, wake } = await stall(before, late);
        const { taken, working } = await takeOver();
        const [rows, key] = [await written(), await keys()];

        wake();
        await hasNoticed();
        expect(await written()).toEqual(rows);
        expect(await keys()).toEqual(key);
        working.open();
        expect((await taken).text).toBe('new');
        expectSame(await answer);
      });
    });

    it('behind one that has the key anew, after it was given free: writes nothing and waits', async () => {
      const { answer, wake } = await stall(undefined, late);
      const released = await send(second, () => Promise.reject(new Problem(ServiceUnavailable, 'nothing done')));
      expect(released.status).toBe(503);
      expect(await keys()).toEqual([]);
      const { taken, working } = await takeOver();
      const key = await keys(); // of the same version as the one that was lost

      wake();
      await hasNoticed();
      expect(await written()).toEqual([]);
      expect(await keys()).toEqual(key);
      working.open();
      expect((await taken).text).toBe('new');
      expectSame(await answer);
    });
  });
});
