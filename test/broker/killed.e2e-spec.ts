import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { insertEvents } from '../messaging/outbox-writer.js';
import { PostgresProxy, statement } from '../support/postgres-proxy.js';
import { ServiceProcess } from '../support/service-process.js';
import type { TestDatabase } from '../support/test-database.js';
import { waitFor } from '../support/wait-for.js';
import { describeWithBroker, TestBroker } from './broker.js';
import { countingDatabase, DELAYS, startCountingService } from './counting.js';

let broker: TestBroker;
let database: TestDatabase;
let tenantId: string;

beforeEach(async () => {
  broker = await TestBroker.open(['count']);
  await broker.watch();
  ({ database, tenantId } = await countingDatabase());
});
afterEach(async () => {
  await ServiceProcess.killAll();
  await database.drop();
  await broker.close(DELAYS);
});

const effects = () => database.count('effects');
const published = (events: number) =>
  waitFor(async () => (await database.count('outbox', 'published_at IS NOT NULL')) === events, {
    description: `${events} events to be published`,
  });

describeWithBroker('a relay that is killed between publishing and marking (K20)', () => {
  it('leaves the event to another one, which sends it again under the same id; its effect happens once', async () => {
    const proxy = await PostgresProxy.start(database.url);
    const marking = proxy.hold(statement.starts(/published_at = statement_timestamp\(\)/));
    const service = await startCountingService(proxy.url, broker);
    await insertEvents(database, tenantId, { aggregates: 1, versions: 1 });
    await marking.reached;
    const first = await broker.next('watch');
    await waitFor(async () => (await effects()) === 1, { description: 'the effect' });
    await service.kill();
    await proxy.stop();
    expect(await database.count('outbox', 'published_at IS NOT NULL')).toBe(0);

    const other = await startCountingService(database.url, broker);
    const second = await broker.next('watch');
    await published(1);
    expect(second.properties.messageId).toBe(first.properties.messageId);
    expect(second.content).toEqual(first.content);
    await other.stop();
    expect(await effects()).toBe(1);
    expect(await broker.depth('count')).toBe(0);
  });
});

describeWithBroker('a consumer that dies (K22)', () => {
  it.each(['before COMMIT', 'after COMMIT'])(
    '%s, and before it acknowledges, leaves the message to another',
    async (at) => {
      const service = await startCountingService(database.url, broker, { DIES: at });
      await insertEvents(database, tenantId, { aggregates: 1, versions: 1 });
      await service.exited;
      expect(await effects()).toBe(at === 'before COMMIT' ? 0 : 1);
      await waitFor(async () => (await broker.depth('count')) === 1, { description: 'the message to come back' });

      const other = await startCountingService(database.url, broker);
      await published(1);
      await waitFor(async () => (await effects()) === 1, { description: 'the effect' });
      await waitFor(async () => (await broker.depth('count')) === 0, { description: 'the message to be taken' });
      await other.stop(); // what it has not acknowledged goes back to the queue
      expect(await effects()).toBe(1);
      expect(await broker.depth('count')).toBe(0);
      expect(await broker.depth('dead')).toBe(0);
    },
  );
});
