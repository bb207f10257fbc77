import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type Outcome, runBuilt } from '../support/built-command.js';
import { TestApp } from '../support/test-app.js';

let service: TestApp;
beforeAll(async () => (service = await TestApp.start()));
afterAll(() => service.stop());

const tenants = (args: string[], environment: Record<string, string> = {}): Promise<Outcome> =>
  runBuilt('tenants/tenants.command.js', args, { DATABASE_URL: service.database.url, ...environment });

const keyIn = ({ stdout }: Outcome) => /^key +(sk_\S+)$/m.exec(stdout)![1]!;
const keyIdIn = ({ stdout }: Outcome) => /^key id +(\S+)$/m.exec(stdout)![1]!;
const statusOf = async (key: string) => (await service.as({ key }).get('/v1/orders')).status;

describe('npm run tenants', () => {
  it('creates, rotates, lists and revokes; a key is printed once and lets its tenant in', async () => {
    const created = await tenants(['create', 'shop']);
    expect([created.code, created.stderr]).toEqual([0, '']);
    const rotated = await tenants(['rotate', 'shop']);
    expect([await statusOf(keyIn(created)), await statusOf(keyIn(rotated))]).toEqual([200, 200]);

    const revoked = await tenants(['revoke', keyIdIn(rotated)]);
    expect([revoked.code, revoked.stdout]).toEqual([0, `The key ${keyIdIn(rotated)} is revoked.\n`]);

    const listed = await tenants(['list']);
    const lines = listed.stdout.split('\n').filter((line) => line.startsWith('shop '));
    expect(lines).toEqual([
      expect.stringMatching(new RegExp(`^shop +${keyIdIn(created)} .*active$`)),
      expect.stringMatching(new RegExp(`^shop +${keyIdIn(rotated)} .*revoked \\d{4}-`)),
    ]);
    for (const { key } of [created, rotated].map((outcome) => ({ key: keyIn(outcome) }))) {
      expect(listed.stdout).not.toContain(key);
    }
  });

  it('says in one line what is wrong, and fails', async () => {
    const outcomes = await Promise.all([
      tenants(['create', 'acme']),
      tenants(['rotate', 'nobody']),
      tenants(['revoke', '01900000-0000-7000-8000-000000000000']),
      tenants(['create', 'a/b']),
    ]);

    for (const { code, stdout, stderr } of outcomes) {
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toMatch(/^.+\n$/);
    }
    expect(await service.database.count('tenants', `name = 'a/b'`)).toBe(0);
  });

  it('explains itself and fails when it is called in any other way', async () => {
    const before = await service.database.count('tenants');
    const calls = [[], ['create', 'a', 'b'], ['list', 'shop'], ['toString', 'shop']];
    const outcomes = await Promise.all(calls.map((args) => tenants(args)));

    const usage = /^Usage:\n[\s\S]*create NAME[\s\S]*rotate NAME[\s\S]*revoke KEY-ID[\s\S]*list/;
    expect(outcomes.map(({ code, stdout, stderr }, n) => [calls[n], code, stdout, usage.test(stderr)])).toEqual(
      calls.map((args) => [args, 1, '', true]),
    );
    expect(await service.database.count('tenants')).toBe(before);
  });

  it('tells no password of a database that it cannot reach', async () => {
    const { code, stdout, stderr } = await tenants(['list'], { DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/x' });

    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/^.+\n$/);
    expect(stderr).not.toContain('hunter2');
  });
});
