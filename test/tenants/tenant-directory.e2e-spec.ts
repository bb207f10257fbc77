import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { hashOf, TenantDirectory, TenantError } from '../../src/tenants/tenant-directory.js';
import { ACME, GLOBEX, TestApp } from '../support/test-app.js';

let service: TestApp;
let directory: TenantDirectory;
beforeAll(async () => {
  service = await TestApp.start();
  directory = service.app.get(TenantDirectory);
});
afterAll(() => service.stop());
beforeEach(() => service.database.query('TRUNCATE tenants CASCADE'));

const counts = async () => [await service.database.count('tenants'), await service.database.count('api_keys')];

describe('a new tenant', () => {
  it('gets a key that nobody could guess, and that lets it in', async () => {
    const { tenantId, keyId, key } = await directory.create('acme');

    expect(key).toMatch(/^sk_[\w-]{32}$/);
    expect(await directory.identify(hashOf(key))).toEqual({ tenantId, keyId });
    expect(await counts()).toEqual([1, 1]);
  });

  it('has its key kept as a hash and nowhere as text', async () => {
    const { key, keyId } = await directory.create('acme');

    const rows = await service.database.query('SELECT id, hash, hint FROM api_keys');
    expect(rows).toEqual([{ id: keyId, hash: createHash('sha256').update(key).digest(), hint: key.slice(0, 10) }]);
    const [dump] = await service.database.query<{ text: string }>(
      'SELECT concat((SELECT json_agg(t) FROM tenants t), (SELECT json_agg(k) FROM api_keys k)) AS text',
    );
    expect(dump!.text).toContain(key.slice(0, 10));
    expect(dump!.text).not.toContain(key.slice(0, 11));
  });

  it('has a name of its own', async () => {
    await directory.create('acme');

    await expect(directory.create('acme')).rejects.toThrow(new TenantError('There is a tenant acme already.'));
    expect(await counts()).toEqual([1, 1]);
  });

  it('is made once, however many make it at the same moment', async () => {
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, () => directory.create('acme')));

    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const refused = outcomes.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[];
    expect(refused.every(({ reason }) => reason instanceof TenantError)).toBe(true);
    expect(await counts()).toEqual([1, 1]);
  });

  it.each(['a', 'Größe und Co', 'shop_1.example-eu', '株式会社', 'x'.repeat(100)])('may be called %s', async (name) => {
    await directory.create(name);
    expect((await directory.list()).map(({ tenant }) => tenant)).toEqual([name]);
  });

  it.each(['', ' acme', '-acme', 'a\nb', 'a\0b', 'a/b', "a'; DROP TABLE tenants", 'x'.repeat(101)])(
    'may not be called %j',
    async (name) => {
      await expect(directory.create(name)).rejects.toBeInstanceOf(TenantError);
      expect(await counts()).toEqual([0, 0]);
    },
  );
});

describe('rotating', () => {
  it('makes another key, and the old ones go on working', async () => {
    const first = await directory.create('acme');
    const second = await directory.rotate('acme');

    expect(second.tenantId).toBe(first.tenantId);
    expect(second.key).not.toBe(first.key);
    for (const { tenantId, keyId, key } of [first, second]) {
      expect(await directory.identify(hashOf(key))).toEqual({ tenantId, keyId });
    }
    expect(await counts()).toEqual([1, 2]);
  });

  it('a tenant that does not exist is refused', async () => {
    await expect(directory.rotate('nobody')).rejects.toThrow(new TenantError('There is no tenant nobody.'));
    expect(await counts()).toEqual([0, 0]);
  });
});

describe('revoking', () => {
  it('ends that key and no other', async () => {
    const [first, second] = [await directory.create('acme'), await directory.rotate('acme')];
    await directory.revoke(first.keyId.toUpperCase());

    expect(await directory.identify(hashOf(first.key))).toBeUndefined();
    expect(await directory.identify(hashOf(second.key))).toMatchObject({ keyId: second.keyId });
  });

  it('a key that is revoked already changes nothing, not even since when', async () => {
    const { keyId } = await directory.create('acme');
    await directory.revoke(keyId);
    const before = await directory.list();
    await directory.revoke(keyId);

    expect(await directory.list()).toEqual(before);
    expect(before[0]!.revokedAt).toBeInstanceOf(Date);
  });

  it.each(['01900000-0000-7000-8000-000000000000', 'acme', '', "' OR true --"])(
    'no key of the id %j is refused',
    async (id) => {
      await directory.create('acme');

      await expect(directory.revoke(id)).rejects.toBeInstanceOf(TenantError);
      expect(await service.database.count('api_keys', 'revoked_at IS NOT NULL')).toBe(0);
    },
  );
});

describe('the list', () => {
  it('tells of every key what tells it from the others, by tenant and age, and never the key', async () => {
    const zeta = await directory.create('zeta');
    const [alpha, alpha2] = [await directory.create('alpha'), await directory.rotate('alpha')];
    await directory.revoke(alpha.keyId);
    const list = await directory.list();

    const entry = (tenant: string, { key, keyId }: { key: string; keyId: string }, revoked: boolean) => ({
      ...{ tenant, keyId, hint: key.slice(0, 10), createdAt: expect.any(Date) },
      revokedAt: revoked ? expect.any(Date) : null,
    });
    expect(list).toEqual([entry('alpha', alpha, true), entry('alpha', alpha2, false), entry('zeta', zeta, false)]);
  });
});

describe('the demo tenants', () => {
  it('are made once, however often the service starts', async () => {
    await Promise.all([directory.seed([ACME, GLOBEX]), directory.seed([ACME, GLOBEX])]);
    await directory.seed([ACME, GLOBEX]);

    expect(await counts()).toEqual([2, 2]);
    for (const { tenantId, keyId, key } of [ACME, GLOBEX]) {
      expect(await directory.identify(hashOf(key))).toEqual({ tenantId, keyId });
    }
  });

  it('keep a key revoked that was revoked', async () => {
    await directory.seed([ACME]);
    await directory.revoke(ACME.keyId);
    await directory.seed([ACME]);

    expect(await directory.identify(hashOf(ACME.key))).toBeUndefined();
  });
});
